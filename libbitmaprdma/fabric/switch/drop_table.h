// fabric/switch/drop_table.h - the merge table of explicit drop notification (DN-4): dropped packets, and those among
// them not yet reported. One entry a flow, made by its first drop, removed by the first packet of the flow that finds
// room again. Decides only; fabric/switch/drop_notifier.h makes packets of it.
//
//   dropped    not in the table                report: first
//   dropped    the first again, alone          report: first (its retransmission was dropped)
//   dropped    the first again, others behind  report: tail, then first
//   dropped    the next after the last         nothing yet
//   dropped    any other                       report: tail if there is one, then first; the entry restarts with it
//   enqueued   in the table                    report: tail if there is one; the entry is removed
//   nothing for `silence`                      the same: a silent flow must not wait for its timeout
//
// The fifth and the last line are ours: the source leaves them open. A full table evicts the flow with the oldest last
// drop, after reporting its tail: only merging is lost.
// RoCE counts packets (PSN, 24 bits), TCP bytes (32 bits). No allocation after construction; each call takes constant
// time, handle_timeout that for each flow that is due.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/units.h"

namespace brdma::fabric {

// A connection in a switch's view: the five-tuple, and for RoCE the destination queue pair. The notifier separates its
// requests, responses and acknowledgements (high byte), which have separate number sequences.
struct DropFlow {
  IpAddress source, destination;
  std::uint16_t source_port = 0, destination_port = 0;
  std::uint8_t protocol = 17;  // 17: RoCE, 6: TCP
  std::uint32_t queue_pair = 0;
  friend bool operator==(const DropFlow&, const DropFlow&) = default;
};

struct DroppedPacket {
  std::uint32_t number = 0;  // PSN, or the first byte's sequence number
  std::uint32_t length = 1;  // 1, or bytes of payload
  ConstBytes beginning{};    // from the IP header on: quoted in notifications
};

// A report to the flow's source.
struct DropReport {
  enum class Kind : std::uint8_t { kFirst, kTail };
  static constexpr std::size_t kQuoteMax = 92;  // IPv6, UDP, BTH, BXTH
  Kind kind = Kind::kFirst;
  DropFlow flow;
  std::uint32_t number = 0;  // the first dropped one ...
  std::uint32_t length = 1;  // ... and the length of the run
  Duration drain;            // of the queue, when the last of them was dropped
  std::uint8_t quote_size = 0;
  std::array<std::byte, kQuoteMax> quote_bytes{};
  // The beginning of the first packet of this report.
  [[nodiscard]] ConstBytes quote() const { return ConstBytes{quote_bytes}.first(quote_size); }
};

// In sending order.
struct DropReports {
  static constexpr std::size_t kMost = 3;
  std::array<DropReport, kMost> reports;
  std::size_t count = 0;
  [[nodiscard]] const DropReport* begin() const { return reports.data(); }
  [[nodiscard]] const DropReport* end() const { return reports.data() + count; }
};

class DropTable {
 public:
  struct Config {
    std::size_t flows_max = 1024;
    Duration silence = 100_us;
  };
  struct Counters {
    std::uint64_t dropped = 0;  // packets
    std::uint64_t merged = 0;   // of these: reported with others, in a tail
    std::uint64_t first = 0;    // reports of each kind
    std::uint64_t tails = 0;
    std::uint64_t silent = 0;     // of the tails: reported because the flow fell silent
    std::uint64_t displaced = 0;  // flows evicted because the table was full
    std::uint64_t flows_most = 0;
  };

  explicit DropTable(const Config& config);

  // A packet of `flow` finds no room in a queue that takes `drain` to empty.
  [[nodiscard]] DropReports dropped(const DropFlow& flow, const DroppedPacket& packet, Duration drain, Instant now);
  // A packet of `flow` has found room.
  [[nodiscard]] std::optional<DropReport> enqueued(const DropFlow& flow);
  // A flow that has fallen silent; nothing: no more. Call until then.
  [[nodiscard]] std::optional<DropReport> poll_silent(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  [[nodiscard]] std::size_t flows() const { return count_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;
  struct Entry {
    DropFlow flow;
    std::uint32_t start = 0;
    std::uint32_t tail = 0;  // first number after the first packet ...
    std::uint32_t end = 0;   // ... and after all: equal where there is no tail
    Duration drain;
    Instant last_drop;
    std::uint32_t chain = kNone;                 // next entry of the same bucket
    std::uint32_t older = kNone, newer = kNone;  // by last_drop
    std::uint8_t quote_size = 0;                 // of the tail's first packet
    std::array<std::byte, DropReport::kQuoteMax> quote{};
  };

  [[nodiscard]] std::uint32_t find(const DropFlow& flow) const;
  [[nodiscard]] std::size_t bucket_of(const DropFlow& flow) const;
  std::uint32_t make(const DropFlow& flow);
  void remove(std::uint32_t place);
  void unlink(Entry& entry);
  void link_newest(std::uint32_t place);
  void begin_with(Entry& entry, const DroppedPacket& packet);
  [[nodiscard]] DropReport first_report(const Entry& entry, const DroppedPacket& packet);
  [[nodiscard]] DropReport tail_report(const Entry& entry);

  Config config_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> buckets_;
  std::uint32_t free_ = kNone;  // by `chain`
  std::uint32_t oldest_ = kNone, newest_ = kNone;
  std::size_t count_ = 0;
  Counters counters_;
};

}  // namespace brdma::fabric
