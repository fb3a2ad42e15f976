#include "trace/text.h"

#include <array>
#include <string_view>

namespace brdma::trace {
namespace {

// IBTA table 38; holes are opcodes that RC does not have.
constexpr std::array<std::string_view, 32> kRcOpcodes = {"send_first",
                                                         "send_middle",
                                                         "send_last",
                                                         "send_last_imm",
                                                         "send_only",
                                                         "send_only_imm",
                                                         "write_first",
                                                         "write_middle",
                                                         "write_last",
                                                         "write_last_imm",
                                                         "write_only",
                                                         "write_only_imm",
                                                         "read_request",
                                                         "read_response_first",
                                                         "read_response_middle",
                                                         "read_response_last",
                                                         "read_response_only",
                                                         "acknowledge",
                                                         "atomic_acknowledge",
                                                         "compare_swap",
                                                         "fetch_add",
                                                         "",
                                                         "send_last_inv",
                                                         "send_only_inv"};

constexpr std::array<std::string_view, 5> kEntries = {"sent-unacked", "suspected-lost", "retransmit-pending",
                                                      "retransmitted-unacked", "acked"};
constexpr std::array<std::string_view, 7> kCauses = {"none",      "depth",     "age",      "stall",
                                                     "same_path", "immediate", "requested"};
constexpr std::array<std::string_view, 7> kQpStates = {"reset", "init", "rtr", "rts", "sqd", "sqe", "err"};

template <std::size_t N>
std::string_view pick(const std::array<std::string_view, N>& names, std::size_t value) {
  return value < N && !names[value].empty() ? names[value] : "unknown";
}

std::string hex(std::uint8_t value) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  return {'0', 'x', kDigits[value >> 4], kDigits[value & 0xF]};
}

std::string opcode(std::uint8_t value) {
  const std::string_view rc = kRcOpcodes[value & 0x1F];
  switch (value >> 5) {
    case 0:
      return rc.empty() ? hex(value) : std::string{rc};
    case 6:  // bitmap mode
      return rc.empty() ? hex(value) : "bitmap_" + std::string{rc};
    case 7: {
      constexpr std::array<std::string_view, 3> kControls = {"caps", "bitmap_ack", "ffm"};
      const std::size_t index = value & 0x1F;
      return index < kControls.size() ? std::string{kControls[index]} : hex(value);
    }
    default:
      return hex(value);
  }
}

// " name=value" pieces after the event's name.
class Line {
 public:
  explicit Line(std::string_view name) : text_(name) {}
  Line& field(std::string_view name, std::string_view value) {
    text_.append(" ").append(name).append("=").append(value);
    return *this;
  }
  Line& field(std::string_view name, std::uint64_t value) { return field(name, std::to_string(value)); }
  Line& field(std::string_view name, Psn value) { return field(name, value.value()); }
  Line& word(std::string_view value) {
    text_.append(" ").append(value);
    return *this;
  }
  operator std::string() const { return text_; }  // NOLINT(google-explicit-constructor)

 private:
  std::string text_;
};

struct ToText {
  std::string operator()(const PacketSent& e) const {
    Line line{"packet_sent"};
    line.field("opcode", opcode(e.opcode)).field("psn", e.psn).field("bytes", std::uint64_t{e.bytes});
    if (e.retransmission) line.word("retransmission");
    return line;
  }
  std::string operator()(const PacketReceived& e) const {
    return Line{"packet_received"}
        .field("opcode", opcode(e.opcode))
        .field("psn", e.psn)
        .field("bytes", std::uint64_t{e.bytes});
  }
  std::string operator()(const PacketDropped& e) const {
    const auto reason = static_cast<std::size_t>(e.reason);
    return Line{"packet_dropped"}
        .field("reason", reason < kDropReasonCount ? kDropReasonNames[reason] : "unknown")
        .field("opcode", opcode(e.opcode))
        .field("psn", e.psn);
  }
  std::string operator()(const GapSeen& e) const {
    return Line{"gap_seen"}.field("start", e.start).field("length", std::uint64_t{e.length});
  }
  std::string operator()(const GapPromoted& e) const {
    return Line{"gap_promoted"}
        .field("start", e.start)
        .field("length", std::uint64_t{e.length})
        .field("cause", pick(kCauses, e.cause));
  }
  std::string operator()(const GapClosed& e) const {
    return Line{"gap_closed"}.field("start", e.start).field("base", e.base);
  }
  std::string operator()(const FfmSent& e) const {
    return Line{"ffm_sent"}
        .field("start", e.start)
        .field("length", std::uint64_t{e.length})
        .field("highest", e.highest)
        .field("gaps", std::uint64_t{e.gaps});
  }
  std::string operator()(const FfmReceived& e) const {
    return Line{"ffm_received"}
        .field("start", e.start)
        .field("length", std::uint64_t{e.length})
        .field("gaps", std::uint64_t{e.gaps});
  }
  std::string operator()(const EntryMoved& e) const {
    return Line{"entry"}
        .field("psn", e.psn)
        .word(pick(kEntries, static_cast<std::size_t>(e.from)))
        .word("->")
        .word(pick(kEntries, static_cast<std::size_t>(e.to)));
  }
  std::string operator()(const AckSent& e) const { return acknowledgement("ack_sent", e); }
  std::string operator()(const AckReceived& e) const { return acknowledgement("ack_received", e); }
  std::string operator()(const BitmapModeAgreed& e) const {
    return Line{"bitmap_mode_agreed"}.field("peer_window", std::uint64_t{e.peer_window});
  }
  std::string operator()(const TimeoutFired& e) const {
    return Line{"timeout_fired"}.field("kind", e.probe ? "probe" : "retransmit").field("base", e.base);
  }
  std::string operator()(const SendStalled& e) const {
    return Line{"send_stalled"}.field("base", e.base).field("arrived_end", e.arrived_end);
  }
  std::string operator()(const CompletionMade& e) const {
    return Line{"completion"}
        .field("queue", e.receive ? "receive" : "send")
        .field("wr_id", e.wr_id)
        .field("status", std::uint64_t{e.status});
  }
  std::string operator()(const OperationRegistered& e) const {
    return Line{"operation_registered"}
        .field("operation", std::uint64_t{e.operation})
        .field("packets", std::uint64_t{e.packets});
  }
  std::string operator()(const OperationCompleted& e) const {
    return Line{"operation_completed"}.field("operation", std::uint64_t{e.operation}).word(e.last ? "last" : "more");
  }
  std::string operator()(const QpStateChanged& e) const {
    return Line{"qp_state"}.word(pick(kQpStates, e.from)).word("->").word(pick(kQpStates, e.to));
  }
  std::string operator()(const PathDown& e) const { return Line{"path_down"}.field("path", std::uint64_t{e.path}); }
  std::string operator()(const PathUp& e) const { return Line{"path_up"}.field("path", std::uint64_t{e.path}); }

 private:
  template <class Ack>
  static std::string acknowledgement(std::string_view name, const Ack& e) {
    return Line{name}.field("base", e.base).field("highest", e.highest).field("syndrome", hex(e.syndrome));
  }
};

}  // namespace

std::string text(const Event& event) { return std::visit(ToText{}, event); }

std::string line(Instant when, std::uint32_t qpn, const Event& event) {
  const std::int64_t ns = when.ns();
  const std::uint64_t magnitude = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
  const std::string fraction = std::to_string(1000 + magnitude % 1000).substr(1);
  return (ns < 0 ? "-" : "") + std::to_string(magnitude / 1000) + "." + fraction + "us qp=" + std::to_string(qpn) +
         " " + text(event);
}

}  // namespace brdma::trace
