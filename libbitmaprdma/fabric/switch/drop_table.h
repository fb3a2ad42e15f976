// fabric/switch/drop_table.h - the merge table of explicit drop notification (spec 5): what a switch has dropped and
// which of it is still to be told. One entry a flow, made by its first drop, gone with the first packet of the flow
// that finds room again. Decides only; fabric/drop_notice.h makes packets of it.
//
//   dropped    not in the table                told: first
//   dropped    the first again, alone          told: first (its retransmission was dropped)
//   dropped    the first again, others behind  told: tail, then first
//   dropped    the next after the last         nothing yet
//   dropped    any other                       told: tail if there is one, then first; the entry begins anew with it
//   enqueued   in the table                    told: tail if there is one; the entry is gone
//   nothing for `silence`                      the same: a flow that has fallen silent must not wait for its timeout
//
// The fifth and the last line are ours: the source leaves them open. A full table gives up the flow that has had no
// drop for the longest time, after telling its tail: nothing is lost by it but merging.
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

// A connection as a switch sees it: the five-tuple, and for RoCE the queue pair that packets go to; the notifier keeps
// its requests, answers and acknowledgements apart (high byte), whose numbers count separately.
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

// To be told to the flow's source.
struct DropReport {
  enum class Kind : std::uint8_t { kFirst, kTail };
  static constexpr std::size_t kQuoteMax = 92;  // IPv6, UDP, BTH, BXTH
  Kind kind = Kind::kFirst;
  DropFlow flow;
  std::uint32_t number = 0;  // the first that was dropped ...
  std::uint32_t length = 1;  // ... and how many from there on
  Duration drain;            // of the queue, when the last of them was dropped
  std::uint8_t quote_size = 0;
  std::array<std::byte, kQuoteMax> quote_bytes{};
  // The beginning of the first packet that this report speaks of.
  [[nodiscard]] ConstBytes quote() const { return ConstBytes{quote_bytes}.first(quote_size); }
};

// In the order in which to tell them.
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
    std::uint64_t merged = 0;   // of these: told with others, in a tail
    std::uint64_t first = 0;    // reports of each kind
    std::uint64_t tails = 0;
    std::uint64_t silent = 0;     // of the tails: told because the flow had fallen silent
    std::uint64_t displaced = 0;  // flows given up because the table was full
    std::uint64_t flows_most = 0;
  };

  explicit DropTable(const Config& config);

  // A packet of `flow` finds no room in a queue that takes `drain` to empty.
  [[nodiscard]] DropReports dropped(const DropFlow& flow, const DroppedPacket& packet, Duration drain, Instant now);
  // A packet of `flow` has found room.
  [[nodiscard]] std::optional<DropReport> enqueued(const DropFlow& flow);
  // A flow that has fallen silent; nothing: none is any more. Ask until then.
  [[nodiscard]] std::optional<DropReport> poll_silent(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  [[nodiscard]] std::size_t flows() const { return count_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr std::uint32_t kNone = 0xFFFF'FFFF;
  struct Entry {
    DropFlow flow;
    std::uint32_t start = 0;
    std::uint32_t tail = 0;  // first number behind the first packet ...
    std::uint32_t end = 0;   // ... and behind all: equal where there is no tail
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
