// tests/support/two_engines.h - two engines with one queue pair each, joined by a wire in memory, in virtual time.
// Small and direct, for unit tests of the engine and the requester; worlds with faults from a seed are sim/'s.
//
//   TwoEngines pair{{.mtu = PathMtu::k256}};
//   pair.drop = [](const Sent& sent) { return sent.psn() == 1003 && sent.copy == 1; };
//   pair.post(0, pair.write(0, 4096, /*wr_id=*/1));
//   pair.run_until_idle();
//   EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kSuccess);
//
// Side 0 and side 1 have 1 MiB of memory each, registered with every right. `wire` keeps all packets on the wire,
// `story` all trace lines of the engines.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "device/engine.h"
#include "qp/state/management.h"
#include "support/tokens.h"
#include "trace/events.h"
#include "trace/text.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace brdma::test {

struct PairOptions {
  RecoveryMode mode[2] = {RecoveryMode::kBitmap, RecoveryMode::kBitmap};
  PathMtu mtu = PathMtu::k1024;
  QpType type = QpType::kRc;
  Duration one_way_delay = 5_us;
  std::uint32_t segments_max = 16;
  std::uint32_t first_psn[2] = {1000, 5000};  // of side i's packets
  QpCapabilities capabilities{
      .send_wr_max = 128, .receive_wr_max = 128, .send_sge_max = 4, .receive_sge_max = 4, .inline_bytes_max = 256};
  std::uint32_t cq_entries = 1024;
  bool signal_all = false;
  std::uint8_t timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;
  std::uint8_t max_rd_atomic = 4;
  bool ip_id_known = true;
  bool v6 = false;
  std::uint16_t paths = 1;         // UDP source ports of each side
  std::uint8_t traffic_class = 0;  // the applications' value
  RecoveryConfig recovery{};
  TransferConfig transfer[2];
  std::uint32_t receive_packets = 256;
  std::uint32_t receive_bytes = 1u << 20;
  LocalMemory* local_memory[2] = {nullptr, nullptr};
  bool want_local = true;  // determine it before the test begins; else with the first large message
  bool connect = true;
  bool settle = true;  // exchange CAPS in both directions before the test begins
};

// A packet on the wire.
struct Sent {
  int from = 0;
  Instant at;
  std::vector<std::byte> bytes;
  std::uint16_t source_port = 0;
  std::uint16_t ip_id = 0;
  std::uint8_t traffic_class = 0;
  unsigned copy = 1;      // which transmission of this opcode kind and PSN by this side
  std::size_t batch = 0;  // number of the Transmit that carried it
  bool dropped = false;
  [[nodiscard]] wire::Bth bth() const { return wire::parse_bth(ConstBytes{bytes}.first<wire::kBthSize>()); }
  [[nodiscard]] std::uint32_t psn() const { return bth().psn.value(); }
  [[nodiscard]] wire::Packet packet() const { return wire::parse_packet(bytes).value(); }
  [[nodiscard]] bool data() const {
    const std::uint8_t opcode = bth().opcode;
    return opcode < wire::kTransportControl && opcode != wire::kCnpOpcode && wire::is_request(packet().op);
  }
  [[nodiscard]] bool control(wire::Control which) const { return bth().opcode == static_cast<std::uint8_t>(which); }
};

class TwoEngines {
 public:
  static constexpr std::size_t kMemory = 1u << 20;

  struct Recorder : trace::Sink {
    void record(Instant when, std::uint32_t qpn, const trace::Event& event) override {
      (void)qpn;
      lines.emplace_back(when, trace::text(event));
    }
    std::vector<std::pair<Instant, std::string>> lines;
  };
  struct Side {
    IpAddress address;
    AddressHandle peer;
    EngineConfig config;
    Statistics statistics;
    Recorder trace;
    std::unique_ptr<Engine> engine;
    ProtectionDomain* pd = nullptr;
    CompletionQueue* send_cq = nullptr;
    CompletionQueue* receive_cq = nullptr;
    QueuePair* qp = nullptr;
    MemoryRegion* region = nullptr;
    std::uint32_t key = 0;
    std::vector<std::byte> memory;
    std::vector<Notification> notifications;
    [[nodiscard]] std::uint64_t count(Counter counter) const { return statistics.get(counter); }
    [[nodiscard]] std::uint64_t count(DropReason reason) const { return statistics.get(reason); }
    [[nodiscard]] std::uint64_t at(std::uint64_t offset) const {
      return reinterpret_cast<std::uint64_t>(memory.data()) + offset;
    }
  };

  explicit TwoEngines(PairOptions given = {}) : options(std::move(given)) {
    for (int i = 0; i < 2; ++i) make_side(i);
    for (int i = 0; i < 2; ++i) side[i].peer = {.local = side[i].address, .peer = side[1 - i].address};
    if (!options.connect) return;
    for (int i = 0; i < 2; ++i) connect(i);
    if (options.want_local) {
      for (int i = 0; i < 2; ++i)
        if (side[i].config.local_memory != nullptr) side[i].qp->manage().want_local();
    }
    if (options.settle) {
      run_for(std::max(2_ms, options.one_way_delay * 4));  // each side asks and is answered
      wire.clear();
      copies_.clear();
    }
  }

  // --- connection ---
  QpAttributes attributes(int i) const {
    QpAttributes a;
    a.path_mtu = options.mtu;
    a.access = kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
    a.destination_qpn = side[1 - i].engine->qp_num(side[1 - i].qp);
    a.receive_psn = Psn{options.first_psn[1 - i]};
    a.send_psn = Psn{options.first_psn[i]};
    a.local_address = side[i].address;
    a.peer_address = side[1 - i].address;
    a.timeout = options.timeout;
    a.retry_count = options.retry_count;
    a.rnr_retry = options.rnr_retry;
    a.min_rnr_timer = options.min_rnr_timer;
    a.max_rd_atomic = options.max_rd_atomic;
    a.max_dest_rd_atomic = options.max_rd_atomic;
    a.qkey = kQkey;
    a.traffic_class = options.traffic_class;
    return a;
  }
  static constexpr std::uint32_t kToInit = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess;
  static constexpr std::uint32_t kToRtr = kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                                          kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
  static constexpr std::uint32_t kToRts =
      kQpAttrState | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic;
  Status modify(int i, QpState state, std::uint32_t mask) {
    QpAttributes a = attributes(i);
    a.state = state;
    return side[i].engine->modify_qp(side[i].qp, a, mask, now);
  }
  static constexpr std::uint32_t kQkey = 0x1111'0000;
  void connect(int i) {
    if (options.type != QpType::kRc) return connect_unreliable(i);
    ASSERT_TRUE(modify(i, QpState::kInit, kToInit).ok());
    ASSERT_TRUE(modify(i, QpState::kRtr, kToRtr).ok());
    ASSERT_TRUE(modify(i, QpState::kRts, kToRts).ok());
  }
  void connect_unreliable(int i) {
    const bool uc = options.type == QpType::kUc;
    const std::uint32_t init = kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | (uc ? kQpAttrAccess : kQpAttrQkey);
    const std::uint32_t rtr = uc ? kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn : 0;
    ASSERT_TRUE(modify(i, QpState::kInit, init).ok());
    ASSERT_TRUE(modify(i, QpState::kRtr, kQpAttrState | rtr).ok());
    ASSERT_TRUE(modify(i, QpState::kRts, kQpAttrState | kQpAttrSqPsn).ok());
  }
  [[nodiscard]] QpState state(int i) const { return side[i].engine->query_qp(side[i].qp).state; }

  // --- work ---
  // Requests of side `i`: `offset` is the same in both memories unless `remote` is given.
  SendRequest request(int i, WorkOpcode opcode, std::uint64_t offset, std::uint32_t length, std::uint64_t wr_id,
                      std::uint64_t remote = ~std::uint64_t{0}) {
    sges_.push_back(Sge{side[i].at(offset), length, side[i].key});
    SendRequest request;
    request.wr_id = wr_id;
    request.sges = std::span<const Sge>{&sges_.back(), 1};
    request.opcode = opcode;
    request.flags = kSendSignaled;
    request.remote_address = side[1 - i].at(remote == ~std::uint64_t{0} ? offset : remote);
    request.rkey = side[1 - i].key;
    if (options.type == QpType::kUd) {
      request.address = &side[i].peer;
      request.remote_qpn = side[1 - i].engine->qp_num(side[1 - i].qp);
      request.remote_qkey = kQkey;
    }
    return request;
  }
  SendRequest write(int i, std::uint64_t offset, std::uint32_t length, std::uint64_t wr_id) {
    return request(i, WorkOpcode::kRdmaWrite, offset, length, wr_id);
  }
  Status post(int i, const SendRequest& request) { return side[i].engine->post_send(side[i].qp, request, now); }
  Status post_receive(int i, std::uint64_t offset, std::uint32_t length, std::uint64_t wr_id) {
    sges_.push_back(Sge{side[i].at(offset), length, side[i].key});
    return side[i].engine->post_receive(side[i].qp, {wr_id, std::span<const Sge>{&sges_.back(), 1}}, now);
  }
  std::vector<Completion> poll(int i) { return poll_queue(i, side[i].send_cq); }
  std::vector<Completion> poll_receives(int i) { return poll_queue(i, side[i].receive_cq); }
  void fill(int i, std::uint64_t seed) {
    Random random(seed, "memory");
    for (std::size_t at = 0; at < kMemory; at += sizeof(std::uint64_t)) {
      const std::uint64_t word = random.next();
      std::memcpy(side[i].memory.data() + at, &word, sizeof word);
    }
  }
  [[nodiscard]] bool same(std::uint64_t offset, std::uint64_t length, std::uint64_t remote) const {
    return std::memcmp(side[0].memory.data() + offset, side[1].memory.data() + remote, length) == 0;
  }
  [[nodiscard]] bool same(std::uint64_t offset, std::uint64_t length) const { return same(offset, length, offset); }

  // --- time ---
  // Handles everything that is due now, then the next due instant, until nothing is due or `limit` has passed.
  void run_until(Instant limit) {
    for (std::size_t rounds = 0;; ++rounds) {
      if (rounds > 2'000'000) FAIL() << "no end in sight at " << now.ns() << " ns";
      round();
      const auto next = next_event();
      if (!next || *next > limit) break;
      now = std::max(now, *next);
    }
    now = std::max(now, limit);
  }
  void run_for(Duration duration) { run_until(now + duration); }
  // Until neither packets nor deadlines are left; false if that takes longer than `at_most`.
  bool run_until_idle(Duration at_most = 10_s) {
    const Instant limit = now + at_most;
    for (std::size_t rounds = 0; rounds < 2'000'000; ++rounds) {
      round();
      const auto next = next_event();
      if (!next) return true;
      if (*next > limit) return false;
      now = std::max(now, *next);
    }
    return false;
  }
  // Does the work that is due at this instant.
  void round() {
    for (bool busy = true; busy;) {
      busy = false;
      while (!flying_.empty() && flying_.begin()->first.first <= now) {
        const Flying packet = std::move(flying_.begin()->second);
        flying_.erase(flying_.begin());
        deliver(packet);
        busy = true;
      }
      for (int i = 0; i < 2; ++i) busy = drive(i) || busy;
    }
  }
  // A packet built by hand reaches side `to`.
  void inject(int to, std::vector<std::byte> bytes, std::uint16_t ip_id = 0, std::uint16_t source_port = 0xC000) {
    deliver(Flying{1 - to, std::move(bytes), source_port, ip_id});
    round();
  }
  // Bytes of a packet as side `from` would send it, with a correct ICRC (identification 0).
  std::vector<std::byte> make(int from, const wire::Packet& packet, ConstBytes payload = {}) const {
    std::vector<std::byte> bytes(wire::kPacketHeadersMax + payload.size() + 8);
    wire::Packet padded = packet;
    padded.bth.pad = static_cast<std::uint8_t>((0 - payload.size()) & 3);
    const std::size_t headers = wire::emit_headers(padded, bytes.data());
    std::copy(payload.begin(), payload.end(), bytes.begin() + static_cast<std::ptrdiff_t>(headers));
    bytes.resize(headers + payload.size() + padded.bth.pad + wire::kIcrcSize);
    sign(from, bytes);
    return bytes;
  }
  void sign(int from, std::vector<std::byte>& bytes, std::uint16_t source_port = 0xC000) const {
    put_tokens(side[1 - from].qp->identity(), side[from].qp->identity().own_token, bytes);
    const wire::IcrcPath path{side[from].address, side[1 - from].address, source_port, kRoceUdpPort, 0};
    store_le32(bytes.data() + bytes.size() - 4, wire::packet_icrc(path, bytes));
  }

  // Lines of both sides that contain one of `wanted`, "0 " or "1 " before each.
  [[nodiscard]] std::string story(const std::vector<std::string>& wanted) const {
    std::vector<std::tuple<Instant, int, std::string>> lines;
    for (int i = 0; i < 2; ++i) {
      for (const auto& [when, text] : side[i].trace.lines) lines.emplace_back(when, i, text);
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const auto& a, const auto& b) { return std::get<0>(a) < std::get<0>(b); });
    std::string all;
    for (const auto& [when, i, text] : lines) {
      for (const std::string& each : wanted) {
        if (text.find(each) == std::string::npos) continue;
        all += std::to_string(i) + " " + text + "\n";
        break;
      }
    }
    return all;
  }
  // The state of side i's requester, for messages of failed tests.
  [[nodiscard]] std::string standing(int i) const {
    const qp::Requester::Snapshot s = side[i].qp->requester().snapshot();
    const auto number = [](const char* name, std::uint64_t n) { return std::string{name} + std::to_string(n); };
    return number("base ", s.base.value()) + number(" next ", s.next.value()) + number(" unacked ", s.unacked) +
           number(" pending ", s.pending) + number(" messages ", s.messages) +
           number(" work requests ", s.work_requests) + number(" flight ", s.flight_packets) +
           number("/", s.flight_bytes) + number(" pipe ", s.pipe_bytes) + number(" answers ", s.responses_messages) +
           number("/", s.responses_packets) + number("/", s.responses_bytes) +
           number(" congestion ", s.congestion_bytes) + (s.waits_for_receiver ? " rnr" : "");
  }
  [[nodiscard]] std::uint64_t accepted_and_dropped(int i) const {
    std::uint64_t sum = side[i].count(Counter::kAcceptedPackets);
    for (std::size_t reason = 0; reason < kDropReasonCount; ++reason) sum += side[i].statistics.drops[reason];
    return sum;
  }
  [[nodiscard]] std::size_t sent_by(int i, const std::function<bool(const Sent&)>& which) const {
    return static_cast<std::size_t>(
        std::count_if(wire.begin(), wire.end(), [&](const Sent& sent) { return sent.from == i && which(sent); }));
  }

  PairOptions options;
  Side side[2];
  Instant now = Instant::from_ns(1'000'000);
  std::function<bool(const Sent&)> drop;             // true: lost on the way
  std::function<Duration(const Sent&)> extra_delay;  // reordering
  std::function<unsigned(const Sent&)> duplicates;   // further copies
  std::vector<Sent> wire;
  std::uint8_t traffic_class = 0;   // on arriving packets: 3 is ECN's mark
  Duration waits[2]{};              // how long packets wait at a side before its engine gets them
  bool paused[2] = {false, false};  // a side that neither receives nor sends nor looks at the clock
  bool in_burst[2] = {};            // a side that receives; it sends once it has received all that waits

 private:
  struct Flying {
    int from = 0;
    std::vector<std::byte> bytes;
    std::uint16_t source_port = 0, ip_id = 0;
  };

  void make_side(int i) {
    Side& me = side[i];
    const auto host = static_cast<std::uint8_t>(i + 1);
    me.address = IpAddress::v4(10, 0, 0, host);
    if (options.v6) me.address = IpAddress{{0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host}};
    me.config.recovery = options.recovery;
    me.config.recovery.mode = options.mode[i];
    me.config.transfer = options.transfer[i];
    me.config.local_memory = options.local_memory[i];
    me.config.seed = static_cast<std::uint64_t>(i) + 1;
    me.config.segments_max = options.segments_max;
    for (std::uint16_t path = 1; path < options.paths; ++path) {
      me.config.source_ports.push_back(static_cast<std::uint16_t>(me.config.source_ports[0] + path));
    }
    me.config.receive_packets = options.receive_packets;
    me.config.receive_bytes = options.receive_bytes;
    me.engine = std::make_unique<Engine>(me.config, me.statistics, &me.trace);
    me.pd = me.engine->alloc_pd();
    me.send_cq = me.engine->create_cq(options.cq_entries, &me.send_cq).value();
    me.receive_cq = me.engine->create_cq(options.cq_entries, &me.receive_cq).value();
    QpCreate create{.type = options.type,
                    .pd = me.pd,
                    .send_cq = me.send_cq,
                    .receive_cq = me.receive_cq,
                    .capabilities = options.capabilities,
                    .signal_all = options.signal_all,
                    .path_mtu = options.mtu,
                    .user = &me};
    me.qp = me.engine->create_qp(create).value();
    me.memory.resize(kMemory);
    me.region = me.engine
                    ->register_memory(me.pd, me.at(0), kMemory, me.at(0),
                                      kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic |
                                          kAccessFlushGlobal)
                    .value();
    me.key = me.engine->info(me.region).lkey;
    sges_.reserve(100'000);
  }

  std::vector<Completion> poll_queue(int i, CompletionQueue* cq) {
    std::vector<Completion> all(4096);
    all.resize(side[i].engine->poll_cq(cq, all));
    return all;
  }

  std::optional<Instant> next_event() {
    std::optional<Instant> first;
    if (!flying_.empty()) first = flying_.begin()->first.first;
    for (int i = 0; i < 2; ++i) {
      if (paused[i]) continue;
      const auto due = side[i].engine->next_timeout();
      if (due && (!first || *due < *first)) first = due;
    }
    return first;
  }

  bool drive(int i) {
    if (paused[i] || in_burst[i]) return false;
    Side& me = side[i];
    bool busy = false;
    if (const auto due = me.engine->next_timeout(); due && *due <= now) {
      me.engine->handle_timeout(now);
      busy = true;
    }
    Transmit out;
    bool more = me.engine->transmit_interest().level != TransmitInterest::kNone;
    while (me.engine->poll_transmit(buffer_, out, now)) {
      EXPECT_TRUE(more) << "the engine denied this batch";
      more = out.more;
      launch(i, out);
      busy = true;
    }
    while (const auto notification = me.engine->poll_notification()) me.notifications.push_back(*notification);
    return busy;
  }

  void launch(int from, const Transmit& out) {
    std::vector<std::byte> all;
    for (const Slice& slice : out.slices) {
      const auto* data = static_cast<const std::byte*>(slice.data);
      all.insert(all.end(), data, data + slice.size);
    }
    ASSERT_EQ(all.size(), out.bytes);
    ASSERT_EQ((all.size() + out.segment_bytes - 1) / out.segment_bytes, out.segments);
    ++batches_;
    for (std::uint16_t i = 0; i < out.segments; ++i) {
      const std::size_t start = std::size_t{i} * out.segment_bytes;
      const std::size_t size = std::min<std::size_t>(out.segment_bytes, all.size() - start);
      Sent sent;
      sent.from = from;
      sent.at = now;
      sent.bytes.assign(all.begin() + static_cast<std::ptrdiff_t>(start),
                        all.begin() + static_cast<std::ptrdiff_t>(start + size));
      sent.source_port = side[from].config.source_ports[out.path];
      sent.ip_id = out.standard ? i : std::uint16_t{0};
      sent.traffic_class = out.traffic_class;
      sent.batch = batches_;
      const bool request = sent.data();
      sent.copy = ++copies_[{from, request, sent.psn()}];
      sent.dropped = drop && drop(sent);
      const Duration delay = options.one_way_delay + (extra_delay ? extra_delay(sent) : Duration{});
      const unsigned copies = sent.dropped ? 0 : 1 + (duplicates ? duplicates(sent) : 0);
      for (unsigned c = 0; c < copies; ++c) {
        flying_.emplace(std::pair{now + delay + waits[1 - from], flown_++},
                        Flying{from, sent.bytes, sent.source_port, sent.ip_id});
      }
      wire.push_back(std::move(sent));
    }
  }

  void deliver(const Flying& packet) {
    Side& to = side[1 - packet.from];
    if (paused[1 - packet.from]) return;
    Datagram datagram;
    datagram.source = side[packet.from].address;
    datagram.destination = to.address;
    datagram.source_port = packet.source_port;
    datagram.traffic_class = traffic_class;
    datagram.ip_id_known = options.ip_id_known;
    datagram.ip_id = packet.ip_id;
    datagram.waited = waits[1 - packet.from];
    datagram.bytes = packet.bytes;
    to.engine->handle_datagram(datagram, now);
  }

  std::vector<Sge> sges_;
  TransmitBuffer buffer_{};
  std::map<std::pair<Instant, std::uint64_t>, Flying> flying_;
  std::map<std::tuple<int, bool, std::uint32_t>, unsigned> copies_;
  std::uint64_t flown_ = 0;
  std::size_t batches_ = 0;
};

}  // namespace brdma::test
