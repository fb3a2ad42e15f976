// tests/attacks/victim_memory.h - the memory of a program with a hostile peer: regions with guards around them, and a
// copy with the expected contents. Only open areas may differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace brdma::attacks {

class VictimMemory {
 public:
  static constexpr std::size_t kGuard = 4096;

  struct Area {
    std::size_t offset = 0, size = 0;
  };

  explicit VictimMemory(std::size_t bytes);
  ~VictimMemory();
  VictimMemory(const VictimMemory&) = delete;
  VictimMemory& operator=(const VictimMemory&) = delete;

  // The next area, with a guard on either side. `secret`: filled with kSecret, as guards are, else with other bytes.
  [[nodiscard]] Area take(std::size_t size, bool secret);
  [[nodiscard]] std::uint8_t* at(std::size_t offset) const { return bytes_ + offset; }

  // From now on the peer may write there; until close(), which restores the contents.
  void open(Area area) { open_[area.offset] = area.size; }
  void close(Area area);
  // A sentence about the first forbidden change; empty: none.
  [[nodiscard]] std::string violation() const;

 private:
  [[nodiscard]] std::size_t first_difference(std::size_t from, std::size_t to) const;

  std::uint8_t* bytes_ = nullptr;
  std::size_t size_ = 0, used_ = kGuard;
  std::vector<std::uint8_t> expected_;
  std::map<std::size_t, std::size_t> open_;  // offset, size
};

}  // namespace brdma::attacks
