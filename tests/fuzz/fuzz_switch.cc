// Input: a set-up, then events of packets at a switch that takes part: dropped, taken into a queue, returning, and
// time. Packets are of few flows with PSNs close together, or noise. Invariants: a notification is well formed and
// names only dropped packets; reports add up; the merge table keeps within its size; only acknowledgements with an echo
// are rewritten, their length stays, and a right ICRC is right afterwards.
#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/datagram.h"
#include "fabric/switch/drop_notifier.h"
#include "fabric/switch/rtt_translator.h"
#include "fuzz/input_reader.h"
#include "wire/control.h"
#include "wire/crc/icrc.h"
#include "wire/edn.h"
#include "wire/opcode.h"
#include "wire/packet.h"

namespace {

using namespace brdma;  // a test's entry point, no header

class SwitchWorld {
 public:
  explicit SwitchWorld(fuzz::InputReader& input)
      : input_(input), v4_(input.coin()), edn_(edn_config(input)), notifier_(edn_), translator_(translation(input)) {}

  void run() {
    while (!input_.empty()) {
      switch (input_.u8() % 4) {
        case 0:
          drop();
          break;
        case 1:
          notifier_.enqueued(view(packet()), now_);
          break;
        case 2:
          translate();
          break;
        default:
          now_ = now_ + Duration::from_ns(std::int64_t{input_.u16()} * 100);
          notifier_.handle_timeout(now_);
          BRDMA_CHECK(!notifier_.next_timeout() || *notifier_.next_timeout() > now_);
      }
      check_table();
      take_notices();
    }
    now_ = now_ + 1_s;  // time reports the rest
    notifier_.handle_timeout(now_);
    BRDMA_CHECK(notifier_.table().flows() == 0 && !notifier_.next_timeout());
    take_notices();
    const auto& reports = notifier_.table().counters();
    const auto& sent = notifier_.counters();
    BRDMA_CHECK(reports.first + reports.tails == sent.sent + sent.limited + sent.formless);
    BRDMA_CHECK(reports.dropped == reports.first + reports.merged);
    if (sent.limited + sent.formless == 0) BRDMA_CHECK(named_ == dropped_);
  }

 private:
  static fabric::DropNotifier::Config edn_config(fuzz::InputReader& input) {
    fabric::DropNotifier::Config config;
    config.form = input.coin() ? fabric::EdnForm::kIcmp : fabric::EdnForm::kRoce;
    config.table.flows_max = 1 + input.below(4);
    config.table.silence = 1_us * std::int64_t{1 + input.below(255)};
    if (input.coin()) {
      config.notices_per_second = 1 + input.u16();
      config.burst = 1 + input.below(8);
    }
    return config;
  }
  static fabric::RttTranslator::Config translation(fuzz::InputReader& input) {
    fabric::RttTranslator::Config config;
    config.increment.rule = static_cast<fabric::IncrementRule>(input.below(4));
    config.increment.longest = 1_us * std::int64_t{1 + input.below(255)};
    config.increment.levels = static_cast<std::uint8_t>(2 + input.below(9));
    config.rewrite = input.coin() ? fabric::Rewrite::kTr : fabric::Rewrite::kTs;
    config.flows_max = 1u << input.below(4);
    return config;
  }

  [[nodiscard]] IpAddress host(std::uint8_t number) const {
    if (v4_) return IpAddress::v4(10, 77, 0, number);
    IpAddress v6;
    v6.bytes = {0xFD, 0x77};
    v6.bytes[15] = number;
    return v6;
  }

  // Any opcode, or noise; the ICRC right.
  std::vector<std::byte>& packet() {
    const std::uint8_t how = input_.u8();
    if (how >= 0xF0) {
      const auto noise = std::as_bytes(input_.bytes(input_.u8()));
      bytes_.assign(noise.begin(), noise.end());
      return bytes_;
    }
    wire::Packet made;
    made.bth.opcode = (how & 1) != 0 ? wire::opcode_of(wire::RcOp::kWriteMiddle, true) : input_.u8();
    if (!wire::opcode_shape(made.bth.opcode).has(wire::OpcodeShape::kKnown)) made.bth.opcode = 0;
    made.bth.dest_qpn = 0x10 + (how >> 1) % 4;
    made.bth.psn = Psn{0xFF'FFF8u} + input_.below(16);
    made.bxth.source_qpn = 0x20 + (how >> 3) % 2;
    made.bxth.timestamp = static_cast<std::uint64_t>(now_.ns());
    std::array<std::byte, wire::kBitmapAckSize> body{};
    std::size_t body_size = 0;
    if (made.bth.opcode == static_cast<std::uint8_t>(wire::Control::kBitmapAck)) {
      wire::BitmapAck ack;
      ack.source_qpn = made.bxth.source_qpn;
      ack.base = made.bth.psn;
      ack.highest = made.bth.psn - 1;
      ack.echo_valid = (how & 2) != 0;
      ack.ts_echo = made.bxth.timestamp;
      ack.tr = made.bxth.timestamp;
      body_size = wire::emit_bitmap_ack(ack, body.data());
    }
    bytes_.assign(wire::headers_size(made) + body_size + wire::kIcrcSize, std::byte{0});
    wire::emit_headers(made, bytes_.data());
    std::copy_n(body.begin(), body_size, bytes_.end() - wire::kIcrcSize - static_cast<std::ptrdiff_t>(body_size));
    store_le32(&bytes_[bytes_.size() - wire::kIcrcSize], wire::packet_icrc(path(1, 2), bytes_));
    return bytes_;
  }
  [[nodiscard]] wire::IcrcPath path(std::uint8_t from, std::uint8_t to) const {
    return {.source = host(from),
            .destination = host(to),
            .source_port = 0xC000,
            .destination_port = kRoceUdpPort,
            .ip_id = 0};
  }
  [[nodiscard]] fabric::RoceView view(const std::vector<std::byte>& bytes) const {
    return {.source = host(1), .destination = host(2), .source_port = 0xC000, .payload = bytes};
  }

  void drop() {
    const auto& bytes = packet();
    const std::uint64_t before = notifier_.table().counters().dropped;
    notifier_.dropped(view(bytes), 1_us * std::int64_t{input_.u8()}, now_);
    if (notifier_.table().counters().dropped == before) return;  // nobody would send it again
    const wire::Bth bth = wire::parse_bth(ConstBytes{bytes}.first<wire::kBthSize>());
    dropped_.insert({bth.dest_qpn, bth.psn.value()});
  }

  void translate() {
    std::vector<std::byte>& bytes = packet();
    const bool forth = input_.coin(), marked = input_.coin();
    const std::uint8_t from = forth ? 1 : 2, to = forth ? 2 : 1;
    const bool whole = bytes.size() >= wire::kBthSize + wire::kIcrcSize;
    if (whole) store_le32(&bytes[bytes.size() - wire::kIcrcSize], wire::packet_icrc(path(from, to), bytes));
    const std::vector<std::byte> before = bytes;
    const std::uint64_t rewritten = translator_.counters().rewritten;
    (void)translator_.pass(host(from), host(to), bytes, marked, now_);
    if (translator_.counters().rewritten == rewritten) {
      BRDMA_CHECK(bytes == before);
    } else {
      BRDMA_CHECK(wire::stored_icrc(bytes) == wire::packet_icrc(path(from, to), bytes));
    }
  }

  void check_table() const { BRDMA_CHECK(notifier_.table().flows() <= edn_.table.flows_max); }

  void take_notices() {
    while (const auto notice = notifier_.poll()) {
      BRDMA_CHECK(notice->destination == host(1));
      if (notice->source_port == 0) {
        const auto said = wire::parse_icmp_edn(notice->view());
        BRDMA_CHECK(said && said->source == host(1) && said->destination == host(2));
        note(said->edn);
      } else {
        const auto parsed = wire::parse_packet(notice->view());
        BRDMA_CHECK(parsed.ok() && parsed.value().control);
        const auto edn = wire::parse_edn(parsed.value().payload, parsed.value().bth.psn);
        BRDMA_CHECK(edn.has_value());
        note(*edn);
      }
    }
  }
  void note(const wire::Edn& edn) {
    for (Psn psn = edn.first;; psn = psn + 1) {
      BRDMA_CHECK(dropped_.count({edn.destination_qpn, psn.value()}) == 1);
      named_.insert({edn.destination_qpn, psn.value()});
      if (psn == edn.last) break;
    }
  }

  fuzz::InputReader& input_;
  bool v4_;
  fabric::DropNotifier::Config edn_;
  fabric::DropNotifier notifier_;
  fabric::RttTranslator translator_;
  Instant now_ = Instant::from_ns(1'000'000);
  std::vector<std::byte> bytes_;
  std::set<std::pair<std::uint32_t, std::uint32_t>> dropped_, named_;  // queue pair, PSN
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::InputReader input{data, size};
  SwitchWorld{input}.run();
  return 0;
}
