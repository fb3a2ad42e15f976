// registry/escape_channel.h - packets that came before the start of their operation (design RR-12). They are
// kept so that the pipeline does not stall, within a bound of bytes and of time. This class does the accounting, oldest
// first; the caller stores the bytes. A packet in here has not been acknowledged, so it can be dropped. Calls: admit()
// when a packet finds no registration; take() when its operation is registered; expire() when next_deadline() has
// passed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/psn.h"
#include "base/units.h"
#include "base/vector_bytes.h"

namespace brdma::registry {

struct EscapedPacket {
  Psn psn;
  std::uint8_t operation = 0;
  std::uint32_t bytes = 0;
  Instant since;
};

class EscapeChannel {
 public:
  EscapeChannel() = default;  // no room
  explicit EscapeChannel(std::uint64_t bytes_max) : bytes_max_(bytes_max) {}

  [[nodiscard]] bool empty() const { return packets_.empty(); }
  [[nodiscard]] std::size_t size() const { return packets_.size(); }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t allocated_bytes() const { return vector_bytes(packets_); }
  [[nodiscard]] const EscapedPacket& operator[](std::size_t i) const { return packets_[i]; }
  // False: no room for so many bytes.
  [[nodiscard]] bool has_room(std::uint32_t bytes) const { return bytes_ + bytes <= bytes_max_; }
  void admit(const EscapedPacket& packet);
  // Takes out all packets of that operation, and calls `use` with each.
  template <class Use>
  void take(std::uint8_t operation, Use&& use) {
    remove_if([operation](const EscapedPacket& packet) { return packet.operation == operation; }, use);
  }
  // The same for packets that have been here for `time_max` or longer.
  template <class Use>
  void expire(Instant now, Duration time_max, Use&& use) {
    remove_if([now, time_max](const EscapedPacket& packet) { return now - packet.since >= time_max; }, use);
  }
  // Takes out one packet, if it is here: it was processed by another branch.
  bool forget(Psn psn);
  [[nodiscard]] std::optional<Instant> next_deadline(Duration time_max) const;
  void clear();

 private:
  // `use` sees a packet that is out already, and may look at the channel, not change it.
  template <class Wanted, class Use>
  void remove_if(Wanted wanted, Use&& use) {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < packets_.size(); ++i) {
      const EscapedPacket packet = packets_[i];
      if (!wanted(packet)) {
        packets_[kept++] = packet;
        continue;
      }
      bytes_ -= packet.bytes;
      use(packet);
    }
    packets_.resize(kept);
  }

  std::vector<EscapedPacket> packets_;  // in order of arrival
  std::uint64_t bytes_ = 0, bytes_max_ = 0;
};

}  // namespace brdma::registry
