// brdmad/lease/gid_book.h - the GID tables of this network namespace, the same for all programs while brdmad runs
// (io/netdev/gid_tables.h). Updated on each request; kept where the next worker finds them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "io/netdev/gid_tables.h"

namespace brdma::daemon {

// The used entries of all tables. Lies in memory that holder and worker share: plain values. An entry that does not fit
// is assigned again by the next worker.
struct GidRecords {
  static constexpr std::size_t kMax = 2048;
  struct Entry {
    std::uint32_t ifindex = 0, slot = 0;
    IpAddress address;
  };
  std::uint32_t count = 0;  // 0 while they are being written
  std::array<Entry, kMax> entries{};
};

class GidBook {
 public:
  explicit GidBook(GidRecords& kept);
  // Takes over the caller's tables of interfaces that were not requested before, then reads all interfaces.
  [[nodiscard]] nlohmann::ordered_json answer(const nlohmann::ordered_json& question);

 private:
  void keep();
  GidRecords& kept_;
  io::GidTables tables_;
};

}  // namespace brdma::daemon
