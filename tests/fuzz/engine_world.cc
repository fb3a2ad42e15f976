#include "fuzz/engine_world.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "wire/crc/icrc.h"

namespace brdma::fuzz {
namespace {

constexpr std::uint32_t kAccessAll =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
constexpr std::uint32_t kPeerQpn = 0x2203;
constexpr unsigned kBatchesMax = 4096;  // of one drain: more than all windows together can fill
constexpr unsigned kTimeoutsMax = 256;  // at one instant; each must move its deadline on

IpAddress address(bool v4, std::uint8_t last) {
  if (v4) return IpAddress::v4(10, 77, 0, last);
  IpAddress v6;
  v6.bytes = {0xFD, 0x77};
  v6.bytes[15] = last;
  return v6;
}

// Made once: inputs are many and short.
const std::vector<std::byte>& pattern(std::size_t size) {
  static const std::vector<std::byte> bytes = [size] {
    std::vector<std::byte> made(size);
    for (std::size_t i = 0; i < size; ++i) made[i] = static_cast<std::byte>(i * 37 + i / 256);
    return made;
  }();
  return bytes;
}
TransmitBuffer& transmit_buffer() {
  static TransmitBuffer buffer;
  return buffer;
}

}  // namespace

EngineWorld::EngineWorld(InputReader& input) : input_(input), initial_(pattern(kRegionBytes + 2 * kGuardBytes)) {
  const std::uint8_t choices = input.u8();
  const std::uint8_t sizes = input.u8();
  const bool v4 = (choices & 1) != 0;
  here_ = address(v4, 1);
  there_ = address(v4, 2);
  config_.recovery.mode = static_cast<RecoveryMode>((choices >> 1) % 3);
  config_.segments_max = (choices & 0x10) != 0 ? 64 : 1;
  config_.ip_id_counts_in_batch = (choices & 0x20) != 0;
  config_.recovery.window_packets = 64u << (sizes & 3);
  config_.recovery.hold_bytes_max = 1024u << ((sizes >> 2) & 7);
  config_.receive_packets = 16u << ((sizes >> 5) & 3);
  mtu_ = (choices & 0x40) != 0 ? PathMtu::k1024 : PathMtu::k256;
  engine_ = std::make_unique<Engine>(config_, statistics_, nullptr);
  pd_ = engine_->alloc_pd();
  other_pd_ = engine_->alloc_pd();
  cq_ = engine_->create_cq((choices & 0x80) != 0 ? 4 : 1024, nullptr).value();
  make_regions();
  make_shared((sizes & 0x80) != 0);
  for (auto& connection : connections_) {
    create(connection);
    connect(connection);
  }
  drain();
}

EngineWorld::~EngineWorld() = default;

void EngineWorld::make_regions() {
  for (auto& region : regions_) {
    region.writable = &region == &regions_[0];
    region.bytes = initial_;
    register_region(region);
  }
}

void EngineWorld::register_region(Region& region) {
  const auto begin = reinterpret_cast<std::uintptr_t>(region.bytes.data()) + kGuardBytes;
  const bool foreign = &region == &regions_[2];
  const std::uint32_t access = region.writable || foreign ? kAccessAll : 0;
  region.handle = engine_->register_memory(foreign ? other_pd_ : pd_, begin, kRegionBytes, kIova, access).value();
  region.key = engine_->info(region.handle).rkey;
}

void EngineWorld::create(Connection& connection) {
  QpCreate request;
  request.pd = pd_;
  request.send_cq = request.receive_cq = cq_;
  if (&connection == &connections_.back()) request.srq = srq_;
  request.capabilities = {.send_wr_max = kWorkRequestsMax,
                          .receive_wr_max = kWorkRequestsMax,
                          .send_sge_max = 3,
                          .receive_sge_max = 3,
                          .inline_bytes_max = 64};
  connection = Connection{};
  connection.qp = engine_->create_qp(request).value();
  connection.qpn = engine_->qp_num(connection.qp);
  connection.peer_qpn = kPeerQpn + static_cast<std::uint32_t>(&connection - connections_.data());
}

void EngineWorld::destroy(Connection& connection) {
  BRDMA_CHECK(!engine_->destroy_cq(cq_).ok());  // in use
  BRDMA_CHECK(engine_->destroy_qp(connection.qp).ok());
  connection.qp = nullptr;
}

// RESET to RTS, with numbers near their wrap as often as not.
void EngineWorld::connect(Connection& connection) {
  QpAttributes a;
  a.state = QpState::kInit;
  a.access = kAccessAll;
  BRDMA_CHECK(
      engine_->modify_qp(connection.qp, a, kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess, now_).ok());
  a.state = QpState::kRtr;
  a.path_mtu = mtu_;
  a.destination_qpn = connection.peer_qpn;
  a.receive_psn = Psn{0u} - input_.u8();
  a.local_address = here_;
  a.peer_address = there_;
  a.max_dest_rd_atomic = 4;
  a.min_rnr_timer = 1;
  BRDMA_CHECK(engine_
                  ->modify_qp(connection.qp, a,
                              kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                                  kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer,
                              now_)
                  .ok());
  a.state = QpState::kRts;
  a.send_psn = Psn{0u} - input_.u8();
  a.timeout = 8;  // a millisecond
  a.retry_count = 3;
  a.rnr_retry = 3;
  a.max_rd_atomic = 4;
  BRDMA_CHECK(engine_
                  ->modify_qp(connection.qp, a,
                              kQpAttrState | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn |
                                  kQpAttrMaxRdAtomic,
                              now_)
                  .ok());
  connection.next_request = a.receive_psn;
  connection.own_next = a.send_psn;
  connection.msn = connection.rsn = 0;
}

void EngineWorld::step() {
  // 32 places, so that the kept inputs keep their meaning when an operation takes the place of a repeated one.
  using W = EngineWorld;
  constexpr void (EngineWorld::*kOperations[32])() = {&W::send_message,
                                                      &W::send_message,
                                                      &W::send_message,
                                                      &W::send_message,
                                                      &W::send_request,
                                                      &W::send_request,
                                                      &W::send_piggyback,
                                                      &W::send_response,
                                                      &W::send_response,
                                                      &W::send_acknowledgement,
                                                      &W::send_acknowledgement,
                                                      &W::send_control,
                                                      &W::send_control,
                                                      &W::send_control,
                                                      &W::attack_window,
                                                      &W::send_raw,
                                                      &W::post_send,
                                                      &W::post_send,
                                                      &W::post_send,
                                                      &W::use_window,
                                                      &W::post_receive,
                                                      &W::post_receive,
                                                      &W::use_shared_queue,
                                                      &W::pass_time,
                                                      &W::pass_time,
                                                      &W::pass_time,
                                                      &W::modify,
                                                      &W::modify,
                                                      &W::register_again,
                                                      &W::take_completions,
                                                      &W::send_scattered,
                                                      &W::acknowledge_in_turn};
  (this->*kOperations[input_.u8() % std::size(kOperations)])();
  check_invariants();
}

void EngineWorld::finish() {
  drain();
  take_completions();
  check_invariants();
  for (auto& connection : connections_) destroy(connection);
  BRDMA_CHECK(engine_->queue_pairs() == 0);
  destroy_shared();
  for (auto& region : regions_) BRDMA_CHECK(engine_->deregister_memory(region.handle).ok());
  BRDMA_CHECK(engine_->destroy_cq(cq_).ok());
  BRDMA_CHECK(engine_->dealloc_pd(pd_).ok());
  BRDMA_CHECK(engine_->dealloc_pd(other_pd_).ok());
  drain();
  check_invariants();
}

// Mostly drained at once; sometimes not, so that several packets meet one response.
void EngineWorld::deliver(ConstBytes packet, std::uint16_t ip_id) {
  const std::uint8_t how = input_.u8();
  Datagram datagram;
  datagram.source = how % 32 == 1 ? here_ : there_;
  datagram.destination = here_;
  datagram.source_port = config_.source_ports[0];
  datagram.ip_id_known = (how & 0x40) != 0;
  datagram.ip_id = how % 32 == 2 ? static_cast<std::uint16_t>(ip_id + 1) : ip_id;
  // In a block of its own size: a read beyond the end is detected.
  const std::vector<std::byte> exact(packet.begin(), packet.end());
  datagram.bytes = exact;
  engine_->handle_datagram(datagram, now_);
  if ((how & 0x80) == 0) drain();
}

void EngineWorld::drain() {
  Transmit transmit;
  unsigned batches = 0;
  const Engine::Interest interest = engine_->transmit_interest();
  BRDMA_CHECK(interest.only == nullptr || interest.level != TransmitInterest::kNone);
  bool more = true;
  while (engine_->poll_transmit(transmit_buffer(), transmit, now_)) {
    check_sent(transmit);
    BRDMA_CHECK(more && ++batches < kBatchesMax);
    more = transmit.more;
  }
  take_notifications();
}

void EngineWorld::take_notifications() {
  unsigned count = 0;
  while (const auto notification = engine_->poll_notification()) {
    overrun_ = overrun_ || notification->kind == Notification::Kind::kCqError;
    BRDMA_CHECK(++count < kBatchesMax);
  }
}

void EngineWorld::check_sent(const Transmit& transmit) {
  std::vector<std::byte> bytes;
  for (const Slice& slice : transmit.slices) {
    const auto* data = static_cast<const std::byte*>(slice.data);
    bytes.insert(bytes.end(), data, data + slice.size);
  }
  BRDMA_CHECK(transmit.source == here_ && transmit.destination == there_);
  BRDMA_CHECK(bytes.size() == transmit.bytes && transmit.bytes <= config_.batch_bytes_max);
  BRDMA_CHECK(transmit.segments >= 1 && transmit.segments <= config_.segments_max);
  BRDMA_CHECK((transmit.bytes + transmit.segment_bytes - 1) / transmit.segment_bytes == transmit.segments);
  ConstBytes rest = bytes;
  bool carried = false;
  for (std::uint16_t i = 0; i < transmit.segments; ++i) {
    const ConstBytes packet = rest.first(std::min<std::size_t>(transmit.segment_bytes, rest.size()));
    rest = rest.subspan(packet.size());
    BRDMA_CHECK(packet.size() + wire::kIpv6Size + wire::kUdpSize <= mtu_bytes(mtu_) + wire::kOverheadMax);
    const auto parsed = wire::parse_packet(packet);
    BRDMA_CHECK(parsed.ok());
    const bool covers_identification = !parsed.value().bitmap && !parsed.value().control;
    BRDMA_CHECK(!covers_identification || transmit.standard);
    const wire::IcrcPath path{.source = transmit.source,
                              .destination = transmit.destination,
                              .source_port = config_.source_ports[transmit.path],
                              .destination_port = kRoceUdpPort,
                              .ip_id = covers_identification ? i : std::uint16_t{0}};
    BRDMA_CHECK(wire::packet_icrc(path, packet) == wire::stored_icrc(packet));
    BRDMA_CHECK(parsed.value().control || !carried);  // an acknowledgement travels in the last data packet
    carried = carried || parsed.value().bxth.piggyback;
    note_own_request(parsed.value());
  }
}

void EngineWorld::note_own_request(const wire::Packet& packet) {
  if (packet.control || !wire::is_request(packet.op)) return;
  for (auto& connection : connections_) {
    if (connection.peer_qpn != packet.bth.dest_qpn) continue;
    const std::uint32_t mtu = mtu_bytes(mtu_);
    const bool read = packet.op == wire::RcOp::kReadRequest;
    const std::uint32_t count = read ? std::max(1u, (packet.reth.length + mtu - 1) / mtu) : 1;
    const Psn behind = packet.bth.psn + count;
    if (distance(behind, connection.own_next) > 0) connection.own_next = behind;
    return;
  }
  BRDMA_CHECK(false);  // to nobody's queue pair
}

void EngineWorld::check_invariants() {
  std::uint64_t drops = 0;
  for (const std::uint64_t count : statistics_.drops) drops += count;
  BRDMA_CHECK(statistics_.get(Counter::kAcceptedPackets) + drops == statistics_.get(Counter::kReceivedPackets));
  unsigned rounds = 0;
  for (auto due = engine_->next_timeout(); due && *due <= now_; due = engine_->next_timeout()) {
    engine_->handle_timeout(now_);
    drain();
    BRDMA_CHECK(++rounds < kTimeoutsMax);
  }
  check_memory();
}

void EngineWorld::check_memory() {
  const auto same = [&](const Region& region, std::size_t offset, std::size_t size) {
    return std::memcmp(region.bytes.data() + offset, initial_.data() + offset, size) == 0;
  };
  for (const auto& region : regions_) {
    BRDMA_CHECK(same(region, 0, kGuardBytes));
    BRDMA_CHECK(same(region, kGuardBytes + kRegionBytes, kGuardBytes));
    if (!region.writable) BRDMA_CHECK(same(region, kGuardBytes, kRegionBytes));
  }
  BRDMA_CHECK(same(lent_, 0, kGuardBytes));
  BRDMA_CHECK(same(lent_, kGuardBytes + kBoundMax, kRegionBytes - kBoundMax + kGuardBytes));
}

void EngineWorld::take_completions() {
  take_notifications();
  std::array<Completion, 16> completions;
  while (const std::size_t count = engine_->poll_cq(cq_, completions)) {
    for (std::size_t i = 0; i < count; ++i) take(completions[i]);
  }
  if (input_.coin()) engine_->request_notify(cq_, input_.coin());
}

// In order of posting, each once; unsignaled ones may be silent.
void EngineWorld::take(const Completion& completion) {
  for (auto& connection : connections_) {
    if (connection.qpn != completion.qp_num) continue;
    if (shared_receives_.erase(completion.wr_id) != 0) {
      BRDMA_CHECK(&connection == &connections_.back());
      return;
    }
    const bool receive = std::any_of(connection.receives.begin(), connection.receives.end(),
                                     [&](const Posted& posted) { return posted.wr_id == completion.wr_id; });
    auto& queue = receive ? connection.receives : connection.sends;
    while (!queue.empty() && queue.front().wr_id != completion.wr_id) {
      BRDMA_CHECK(!queue.front().signaled);
      queue.pop_front();
    }
    BRDMA_CHECK(!queue.empty());
    queue.pop_front();
    return;
  }
  BRDMA_CHECK(false);  // of nobody's queue pair
}

void EngineWorld::pass_time() {
  constexpr std::int64_t kScales[] = {1, 100, 10'000, 1'000'000, 50'000'000};
  const Instant end = now_ + Duration::from_ns(kScales[input_.u8() % std::size(kScales)] * input_.u8());
  for (unsigned i = 0; i < kTimeoutsMax; ++i) {
    const auto due = engine_->next_timeout();
    if (!due || *due > end) break;
    now_ = std::max(now_, *due);
    engine_->handle_timeout(now_);
    drain();
  }
  now_ = end;
  engine_->handle_timeout(now_);
  drain();
}

}  // namespace brdma::fuzz
