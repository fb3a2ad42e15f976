// fabric/switch/drop_notifier.h - explicit drop notification (EDN) of one switch (DN-8): is called for every packet
// that a queue has dropped or accepted, merges drops (fabric/switch/drop_table.h), and makes notifications to their
// sources.
//
// Notified: packets that their sender retransmits, that is RC requests and responses, standard and in bitmap mode; and
// acknowledgements and feedback, which it makes again. Not notified: other control packets, UC, UD, and packets that
// are not RoCE. (TCP: the table counts its bytes, but nothing reports them. An ordinary TCP host ignores source
// quench since RFC 6633, so the lab sends none.)
//   kRoce  control packet; only where the dropped packet names its sender: bitmap mode, control packets. IPv4 and IPv6
//   kIcmp  source quench; IPv4. IPv6, which has none: as kRoce
// A token bucket bounds a switch's notifications: full at the start, one token back every 1/notices_per_second. Drops
// beyond it are counted (limited) and left to the receiver's feedback. Sans-I/O. No allocation after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/ring.h"
#include "base/units.h"
#include "fabric/switch/drop_table.h"
#include "fabric/token_bucket.h"

namespace brdma::fabric {

enum class EdnForm : std::uint8_t { kOff, kIcmp, kRoce };

// A RoCE datagram in a switch's view.
struct RoceView {
  IpAddress source, destination;
  std::uint16_t source_port = 0;
  ConstBytes payload{};  // of UDP: BTH ..
  ConstBytes from_ip{};  // the same from the IP header on, for quotes; empty: not known (the simulator has no headers)
};

// A notification: an IP packet without its header.
struct DropNotice {
  static constexpr std::size_t kSizeMax = 104;
  IpAddress source, destination;
  std::uint16_t source_port = 0;  // of UDP, to port 4791; 0: an ICMP message
  std::uint8_t size = 0;
  std::array<std::byte, kSizeMax> bytes{};
  [[nodiscard]] ConstBytes view() const { return ConstBytes{bytes}.first(size); }
};

class DropNotifier {
 public:
  struct Config {
    EdnForm form = EdnForm::kOff;
    DropTable::Config table{};
    std::uint32_t notices_per_second = 1'000'000;  // 1 to 1e9
    std::uint32_t burst = 256;                     // at once, after a pause; at least 1
  };
  struct Counters {
    std::uint64_t sent = 0;
    std::uint64_t sent_bytes = 0;  // IP header and all
    std::uint64_t limited = 0;     // not sent: too many
    std::uint64_t formless = 0;    // reports without a form: a standard packet names no sender
  };

  explicit DropNotifier(const Config& config);

  [[nodiscard]] bool on() const { return config_.form != EdnForm::kOff; }
  // `drain`: time that the full queue takes to empty; 0: it was not full (a faulty link).
  void dropped(const RoceView& packet, Duration drain, Instant now);
  void enqueued(const RoceView& packet, Instant now);
  void handle_timeout(Instant now);  // flows that fell silent
  [[nodiscard]] std::optional<Instant> next_timeout() const { return table_.next_timeout(); }
  // Notifications to send, in order.
  [[nodiscard]] std::optional<DropNotice> poll();

  [[nodiscard]] const DropTable& table() const { return table_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  void send_report(const DropReport& report, Instant now);
  [[nodiscard]] static std::optional<DropNotice> as_icmp(const DropReport& report);
  [[nodiscard]] static std::optional<DropNotice> as_roce(const DropReport& report);

  Config config_;
  DropTable table_;
  Ring<DropNotice> notices_;
  TokenBucket tokens_;
  Counters counters_;
};

}  // namespace brdma::fabric
