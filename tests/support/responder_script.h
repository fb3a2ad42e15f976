// tests/support/responder_script.h - one responder, driven by hand: packets in at stated times, its output as text,
// silence included.
//
//   ResponderScript rx;                      // bitmap mode, MTU 256, first PSN 1000, limits of design BR-16
//   rx.at(0_us).gets(write(1000)).gets(write(1002));
//   rx.at(50_us).is_silent();                // except for acknowledgements of ack_delay, which are separate
//   rx.at(50_us + kTick).sends({"ffm 1001+1 base=1001 highest=1002 repeat=0"});
//
// at() lets time pass: deadlines in between are served when they are due, and packets sent then are kept with their
// time. One text line a packet, with only the relevant fields (text of each kind: see describe()).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "memory/memory_table.h"
#include "qp/receive/responder.h"
#include "qp/state/environment.h"
#include "support/bytes.h"
#include "trace/text.h"
#include "wire/control.h"

namespace brdma::test {

inline constexpr std::uint32_t kScriptMtu = 256;
inline constexpr std::uint32_t kScriptFirst = 1000;    // PSN
inline constexpr std::uint64_t kScriptVa = 0x10'0000;  // the region's start in the peer's requests
inline constexpr std::size_t kScriptRegion = 1u << 20;

struct ScriptOptions {
  RecoveryMode mode = RecoveryMode::kBitmap;
  bool bitmap_agreed = true;
  std::uint32_t access = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
  std::uint8_t max_dest_rd_atomic = 4;
  std::uint32_t first_psn = kScriptFirst;
  RecoveryConfig recovery = {
      .adaptive = false, .ack_packets = 16, .ack_delay = 5_us, .rnr_hold = Duration{}};  // as the transcripts assume
  QpState state = QpState::kRts;
  std::uint32_t segments_max = 1;
};

class ResponderScript {
 public:
  ~ResponderScript() { responder.reset(); }  // before the environment
  explicit ResponderScript(ScriptOptions options = {}) : options_(options) {
    config_.recovery = options.recovery;
    config_.recovery.mode = options.mode;
    config_.segments_max = options.segments_max;
    pd_ = table_.alloc_pd();
    region_bytes.resize(kScriptRegion);
    receive_bytes.resize(kScriptRegion);
    const std::uint32_t all =
        kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
    region = table_.add(pd_, address_of(region_bytes), kScriptRegion, kScriptVa, all).value();
    receive_region =
        table_.add(pd_, address_of(receive_bytes), kScriptRegion, address_of(receive_bytes), kAccessLocalWrite).value();
    identity.qpn = 0x202;
    identity.recovery = &config_.recovery;
    identity.state = options.state;
    identity.pd = pd_;
    identity.receive_cq = &cq;
    identity.send_cq = &cq;
    identity.bitmap_agreed = options.bitmap_agreed && options.mode == RecoveryMode::kBitmap;
    identity.capabilities.receive_wr_max = 1024;
    identity.capabilities.receive_sge_max = 4;
    identity.attributes.path_mtu = PathMtu::k256;
    identity.attributes.access = options.access;
    identity.attributes.max_dest_rd_atomic = options.max_dest_rd_atomic;
    identity.attributes.destination_qpn = 0x303;
    identity.attributes.local_address = IpAddress::v4(10, 0, 0, 1);
    identity.attributes.peer_address = IpAddress::v4(10, 0, 0, 2);
    responder = std::make_unique<qp::Responder>(environment, identity);
    responder->start(Psn{options.first_psn});
  }

  // --- packets, as the peer builds them: bitmap packets if bitmap mode is agreed ---
  [[nodiscard]] wire::Packet packet(wire::RcOp op, std::uint32_t psn, std::size_t bytes = 0) {
    wire::Packet p;
    p.op = op;
    p.bitmap = identity.bitmap_agreed;
    p.bth.opcode = wire::opcode_of(op, p.bitmap);
    p.bth.psn = Psn{psn};
    p.bth.dest_qpn = identity.qpn;
    p.bxth.timestamp = 1'000'000 + psn;
    p.reth.rkey = region->key;
    p.atomic.rkey = region->key;
    // The PSN determines a packet's payload: byte i is psn + i.
    payloads_.push_back(std::make_unique<Bytes>(bytes));
    for (std::size_t i = 0; i < bytes; ++i) (*payloads_.back())[i] = content(psn, i);
    p.payload = *payloads_.back();
    return p;
  }
  static std::byte content(std::uint32_t psn, std::size_t i) { return static_cast<std::byte>(psn * 7 + i); }

  // Packet `index` of a WRITE message of `length` bytes to `offset` in the region, whose first PSN is psn - index.
  [[nodiscard]] wire::Packet write(std::uint32_t psn, std::uint32_t index, std::uint32_t length,
                                   std::uint64_t offset = 0) {
    const bool last = (index + 1) * kScriptMtu >= length;
    const wire::RcOp op = index == 0 ? (last ? wire::RcOp::kWriteOnly : wire::RcOp::kWriteFirst)
                                     : (last ? wire::RcOp::kWriteLast : wire::RcOp::kWriteMiddle);
    auto p = packet(op, psn, last ? length - index * kScriptMtu : kScriptMtu);
    p.reth.address = kScriptVa + offset + (p.bitmap ? index * kScriptMtu : 0);
    p.reth.length = length;
    p.bxth.packet_index = index;
    return p;
  }
  // Packet `index` of a SEND of `length` bytes, the `rsn`th message that takes a receive.
  [[nodiscard]] wire::Packet send(std::uint32_t psn, std::uint32_t index, std::uint32_t length, std::uint32_t rsn = 0) {
    const bool last = (index + 1) * kScriptMtu >= length;
    const wire::RcOp op = index == 0 ? (last ? wire::RcOp::kSendOnly : wire::RcOp::kSendFirst)
                                     : (last ? wire::RcOp::kSendLast : wire::RcOp::kSendMiddle);
    auto p = packet(op, psn, last ? length - index * kScriptMtu : kScriptMtu);
    p.bxth.packet_index = index;
    p.bxth.rsn = rsn;
    return p;
  }
  // A WRITE Only of 4 bytes: the simplest packet.
  [[nodiscard]] wire::Packet data(std::uint32_t psn) { return write(psn, 0, 4, (psn % 1024) * 4); }
  [[nodiscard]] wire::Packet read(std::uint32_t psn, std::uint32_t length, std::uint64_t offset = 0) {
    auto p = packet(wire::RcOp::kReadRequest, psn);
    p.reth.address = kScriptVa + offset;
    p.reth.length = length;
    return p;
  }
  [[nodiscard]] wire::Packet fetch_add(std::uint32_t psn, std::uint64_t offset, std::uint64_t add) {
    auto p = packet(wire::RcOp::kFetchAdd, psn);
    p.atomic.address = kScriptVa + offset;
    p.atomic.swap_or_add = add;
    return p;
  }
  [[nodiscard]] wire::Packet compare_swap(std::uint32_t psn, std::uint64_t offset, std::uint64_t compare,
                                          std::uint64_t swap) {
    auto p = packet(wire::RcOp::kCompareSwap, psn);
    p.atomic.address = kScriptVa + offset;
    p.atomic.compare = compare;
    p.atomic.swap_or_add = swap;
    return p;
  }
  static wire::Packet asking(wire::Packet p) {
    p.bth.ack_request = true;
    return p;
  }
  static wire::Packet again(wire::Packet p) {
    p.bxth.retransmitted = true;
    return p;
  }

  // --- the script ---
  ResponderScript& at(Duration since_start) {
    const Instant until = Instant{} + since_start;
    if (until > now_) collect();
    for (int rounds = 0;; ++rounds) {
      const auto due = responder->next_timeout();
      if (!due || *due > until) break;
      EXPECT_LT(rounds, 1000) << "next_timeout() names an instant at which nothing changes";
      if (rounds >= 1000) break;
      now_ = std::max(now_, *due);
      carry_out(responder->handle_timeout(now_));
      collect();
    }
    now_ = until;
    return *this;
  }
  ResponderScript& gets(const wire::Packet& p) {
    carry_out(responder->handle_request(p, now_));
    return *this;
  }
  // A switch reports that it has dropped a packet of this side.
  ResponderScript& gets_edn(const wire::Edn& edn) {
    responder->handle_edn(edn, now_);
    return *this;
  }
  // All packets since the last check, acknowledgements too, in order. Lines of earlier instants begin with their time.
  ResponderScript& sends(const std::vector<std::string>& lines) {
    collect();
    EXPECT_THAT(shown(), testing::ElementsAreArray(lines));
    sent_.clear();
    return *this;
  }
  // Like sends(), without acknowledgements ("ack", "back").
  ResponderScript& reports(const std::vector<std::string>& lines) {
    collect();
    std::vector<std::string> rest;
    for (const auto& line : shown()) {
      if (line.find("ack ") == std::string::npos) rest.push_back(line);
    }
    EXPECT_THAT(rest, testing::ElementsAreArray(lines));
    sent_.clear();
    return *this;
  }
  // Ignores all packets sent until now.
  ResponderScript& forget() {
    collect();
    sent_.clear();
    return *this;
  }
  ResponderScript& is_silent() { return reports({}); }
  ResponderScript& counts(Counter counter, std::uint64_t n) {
    EXPECT_EQ(statistics.get(counter), n) << kCounterNames[static_cast<std::size_t>(counter)];
    return *this;
  }
  ResponderScript& drops(DropReason reason, std::uint64_t n) {
    EXPECT_EQ(statistics.get(reason), n) << kDropReasonNames[static_cast<std::size_t>(reason)];
    return *this;
  }
  // wr_ids are 1, 2, ... in the order of posting; receive n lies at receive_bytes[(n - 1) * stride].
  ResponderScript& posts_receive(std::uint32_t bytes) {
    const Sge sge{address_of(receive_bytes) + posted_ * kReceiveStride, bytes, receive_region->key};
    const ReceiveRequest request{++posted_, {&sge, 1}};
    EXPECT_TRUE(responder->post_receive(request).ok());
    return *this;
  }
  void restart_receives() { posted_ = 0; }  // after Responder::reset()
  static constexpr std::size_t kReceiveStride = 8192;
  // "1 ok 8 imm=...": each completion since the last check.
  ResponderScript& completes(const std::vector<std::string>& lines) {
    std::vector<std::string> got;
    Completion c;
    while (cq.poll({&c, 1}) == 1) {
      std::string line = std::to_string(c.wr_id) + (c.status == CompletionStatus::kSuccess
                                                        ? " ok " + std::to_string(c.byte_length)
                                                        : " status " + std::to_string(static_cast<unsigned>(c.status)));
      if (c.opcode == CompletionOpcode::kReceiveRdmaWithImm) line += " write";
      if ((c.flags & kCompletionWithImm) != 0) line += " imm=" + std::to_string(c.immediate_be);
      got.push_back(line);
    }
    EXPECT_THAT(got, testing::ElementsAreArray(lines));
    return *this;
  }
  ResponderScript& fails(int event) {
    EXPECT_TRUE(failed);
    EXPECT_EQ(async_event, event);
    return *this;
  }
  // Bytes [offset, offset + size) of the region equal the payload of packet `psn`.
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint32_t psn, std::size_t size = kScriptMtu) const {
    return holds(region_bytes, offset, psn, size);
  }
  [[nodiscard]] bool received(std::uint64_t offset, std::uint32_t psn, std::size_t size = kScriptMtu) const {
    return holds(receive_bytes, offset, psn, size);
  }

  Bytes region_bytes, receive_bytes;
  MemoryRegion* region = nullptr;
  MemoryRegion* receive_region = nullptr;
  Statistics statistics;
  qp::Identity identity;
  CompletionQueue cq{4096, nullptr};
  bool failed = false;
  int async_event = -1;
  std::vector<std::string> story;                                   // trace lines, in order
  std::vector<Bytes> payloads;                                      // of the READ responses sent, in order
  std::map<std::uint32_t, Bytes> read_answers;                      // the last by PSN
  std::map<std::uint32_t, std::set<std::uint64_t>> atomic_answers;  // all by PSN
  [[nodiscard]] Psn next_expected() const { return responder->snapshot().next; }

  memory::MemoryTable& table() { return table_; }
  std::unique_ptr<qp::Responder> responder;

 private:
  struct Story : trace::Sink {
    explicit Story(std::vector<std::string>& lines) : lines_(lines) {}
    void record(Instant, std::uint32_t, const trace::Event& event) override { lines_.push_back(trace::text(event)); }
    std::vector<std::string>& lines_;
  };

  static std::uint64_t address_of(Bytes& bytes) { return reinterpret_cast<std::uintptr_t>(bytes.data()); }
  static bool holds(const Bytes& bytes, std::uint64_t offset, std::uint32_t psn, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      if (bytes[offset + i] != content(psn, i)) return false;
    }
    return true;
  }

  // Does the queue pair's part for an Outcome.
  void carry_out(const qp::Outcome& outcome) {
    if (outcome.async_event >= 0) async_event = outcome.async_event;
    if (!outcome.to_error) return;
    failed = true;
    identity.state = QpState::kErr;
    responder->flush(now_);
  }

  void collect() {
    for (;;) {
      qp::TransmitBatch batch(buffer_, config_);
      batch.begin({identity.attributes.local_address, identity.attributes.peer_address});
      const bool expected = responder->interest(now_) != TransmitInterest::kNone;
      const bool responses = responder->poll_responses(batch, now_);
      const bool feedback = responder->poll_feedback(batch, now_);
      const bool acknowledged = responder->poll_acknowledgement(batch, now_);
      EXPECT_TRUE(expected || !(responses || feedback || acknowledged)) << "interest() denied it";
      Transmit out;
      if (!batch.finish(out)) return;
      split(out);
    }
  }

  void split(const Transmit& out) {
    Bytes all;
    for (const Slice& slice : out.slices) {
      const auto* p = static_cast<const std::byte*>(slice.data);
      all.insert(all.end(), p, p + slice.size);
    }
    batches.push_back(out.segments);
    for (std::size_t at = 0; at < all.size(); at += out.segment_bytes) {
      const std::size_t size = std::min<std::size_t>(out.segment_bytes, all.size() - at);
      sent_.push_back({now_, describe(ConstBytes{all.data() + at, size})});
    }
  }

  std::string describe(ConstBytes bytes) {
    const auto parsed = wire::parse_packet(bytes);
    if (!parsed.ok()) return "unparsable";
    const wire::Packet& p = parsed.value();
    EXPECT_EQ(p.bth.dest_qpn, identity.attributes.destination_qpn);
    const std::string psn = std::to_string(p.bth.psn.value());
    if (p.control) return describe_control(p);
    const std::string kind = p.bitmap ? "bitmap " : "";
    switch (p.op) {
      case wire::RcOp::kAcknowledge:
        return kind + syndrome(p.aeth.syndrome) + " " + psn + " msn=" + std::to_string(p.aeth.msn);
      case wire::RcOp::kAtomicAcknowledge:
        atomic_answers[p.bth.psn.value()].insert(p.atomic_original);
        return kind + "atomic " + psn + " original=" + std::to_string(p.atomic_original);
      case wire::RcOp::kReadResponseFirst:
      case wire::RcOp::kReadResponseMiddle:
      case wire::RcOp::kReadResponseLast:
      case wire::RcOp::kReadResponseOnly: {
        static constexpr const char* kNames[] = {"first", "middle", "last", "only"};
        read_answers[p.bth.psn.value()] = Bytes(p.payload.begin(), p.payload.end());
        payloads.emplace_back(p.payload.begin(), p.payload.end());
        std::string line = kind + "read_" +
                           kNames[static_cast<unsigned>(p.op) - static_cast<unsigned>(wire::RcOp::kReadResponseFirst)] +
                           " " + psn + " " + std::to_string(p.payload.size()) + "B";
        if (p.bitmap) line += " index=" + std::to_string(p.bxth.packet_index);
        return line;
      }
      default:
        return kind + "unexpected opcode " + std::to_string(p.bth.opcode);
    }
  }
  static std::string syndrome(std::uint8_t s) {
    if (s == wire::kSyndromeAck) return "ack";
    if ((s & wire::kSyndromeKindMask) == wire::kSyndromeRnr) return "rnr(" + std::to_string(s & 0x1F) + ")";
    if (s == wire::kSyndromeNakSequence) return "nak_sequence";
    if (s == wire::kSyndromeNakInvalidRequest) return "nak_invalid";
    if (s == wire::kSyndromeNakRemoteAccess) return "nak_access";
    if (s == wire::kSyndromeNakRemoteOperation) return "nak_operation";
    return "nak?";
  }
  std::string describe_control(const wire::Packet& p) {
    if (p.bth.opcode == static_cast<std::uint8_t>(wire::Control::kBitmapAck)) {
      const auto back = wire::parse_bitmap_ack(p.payload, p.bth.psn);
      if (!back) return "unparsable bitmap acknowledgement";
      EXPECT_EQ(back->source_qpn, identity.qpn);
      last_ack = *back;
      last_ack.bits = last_ack.ranges = {};
      last_ack_ranges.clear();
      for (std::size_t i = 0; i < back->range_count; ++i) last_ack_ranges.push_back(back->range(i));
      std::string line = (back->syndrome == wire::kSyndromeAck ? "back" : "b" + syndrome(back->syndrome));
      line += " base=" + std::to_string(back->base.value()) + " msn=" + std::to_string(back->msn);
      if (back->bit_count > 0) line += " bits=";
      for (unsigned i = 0; i < back->bit_count; ++i) {
        line += (std::to_integer<unsigned>(back->bits[i / 8]) >> (7 - i % 8) & 1) != 0 ? '1' : '0';
      }
      return line;
    }
    const auto ffm = wire::parse_ffm(p.payload, p.bth.psn);
    if (!ffm) return "unparsable control packet";
    EXPECT_EQ(ffm->source_qpn, identity.qpn);
    last_ffm = *ffm;
    last_ffm.gaps = {};
    last_ffm_gaps.clear();
    std::string line = "ffm";
    for (std::size_t i = 0; i < ffm->gap_count; ++i) {
      last_ffm_gaps.push_back(ffm->gap(i));
      line += " " + std::to_string(ffm->gap(i).start.value()) + "+" + std::to_string(ffm->gap(i).length);
    }
    return line + " base=" + std::to_string(ffm->base.value()) + " highest=" + std::to_string(ffm->highest.value()) +
           " repeat=" + std::to_string(ffm->repeat);
  }

  struct Sent {
    Instant when;
    std::string text;
  };
  [[nodiscard]] std::vector<std::string> shown() const {
    std::vector<std::string> lines;
    for (const Sent& sent : sent_) {
      const std::int64_t ns = sent.when.ns();
      lines.push_back(sent.when == now_ ? sent.text : std::to_string(ns) + "ns " + sent.text);
    }
    return lines;
  }

 public:
  wire::BitmapAck last_ack;
  std::vector<wire::AckRange> last_ack_ranges;
  wire::Ffm last_ffm;
  std::vector<wire::FfmGap> last_ffm_gaps;
  std::vector<unsigned> batches;  // segments of each batch sent

 private:
  ScriptOptions options_;
  EngineConfig config_;
  memory::MemoryTable table_{SecretRandom{1, "keys"}};
  Story sink_{story};
  ProtectionDomain* pd_ = nullptr;

 public:
  qp::Environment environment{
      .config = config_, .memory = table_, .telemetry = {.statistics = statistics, .sink = &sink_}};

 private:
  TransmitBuffer buffer_;
  std::vector<std::unique_ptr<Bytes>> payloads_;
  std::vector<Sent> sent_;
  std::uint64_t posted_ = 0;
  Instant now_;
};

}  // namespace brdma::test
