// Input: one byte that chooses UC or UD, then operations: a peer's packets, mostly close enough to valid to get past
// the first checks, and the application's actions. Invariants: accepted plus all drops equals received; completions of
// either queue come in posting order, once each; no byte outside the region changes; sent packets are well formed.
#include <array>
#include <vector>

#include "base/check.h"
#include "device/engine.h"
#include "fuzz/input_reader.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace {

using namespace brdma;  // a test's entry point, no header

constexpr IpAddress kOwn = IpAddress::v4(10, 0, 0, 2), kPeer = IpAddress::v4(10, 0, 0, 1),
                    kGroup = IpAddress::v4(239, 1, 1, 1);
constexpr std::uint32_t kQkey = 0x1111, kPeerQpn = 0x4402;
constexpr std::size_t kRegion = 16384, kGuard = 4096;
constexpr std::byte kGuardByte{0xA7};

class World {
 public:
  explicit World(fuzz::InputReader& input) : input_(input), memory_(kRegion + 2 * kGuard, kGuardByte) {
    type_ = input_.coin() ? QpType::kUd : QpType::kUc;
    engine_ = std::make_unique<Engine>(config_, statistics_, nullptr);
    ProtectionDomain* const pd = engine_->alloc_pd();
    send_cq_ = engine_->create_cq(256, nullptr).value();
    receive_cq_ = engine_->create_cq(256, nullptr).value();
    key_ =
        engine_
            ->info(engine_->register_memory(pd, at(0), kRegion, at(0), kAccessLocalWrite | kAccessRemoteWrite).value())
            .lkey;
    QpCreate create;
    create.type = type_;
    create.pd = pd;
    create.send_cq = send_cq_;
    create.receive_cq = receive_cq_;
    create.capabilities = {
        .send_wr_max = 16, .receive_wr_max = 16, .send_sge_max = 2, .receive_sge_max = 2, .inline_bytes_max = 64};
    create.path_mtu = PathMtu::k256;
    qp_ = engine_->create_qp(create).value();
    connect();
  }

  void step() {
    switch (input_.u8() % 8) {
      case 0:
        post_receive();
        break;
      case 1:
        post_send();
        break;
      case 2:
        transmit();
        break;
      case 3:
        if (input_.u8() % 8 == 0) move();
        break;
      case 4:
        if (type_ == QpType::kUd) {
          (void)(input_.coin() ? engine_->attach_multicast(qp_, kGroup) : engine_->detach_multicast(qp_, kGroup));
        }
        break;
      default:
        receive();
    }
    check();
  }

 private:
  [[nodiscard]] std::uint64_t at(std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t>(memory_.data()) + kGuard + offset;
  }

  void connect() {
    const bool uc = type_ == QpType::kUc;
    QpAttributes a;
    a.path_mtu = PathMtu::k256;
    a.access = kAccessRemoteWrite;
    a.local_address = kOwn;
    a.peer_address = kPeer;
    a.destination_qpn = kPeerQpn;
    a.qkey = kQkey;
    const auto go = [&](QpState state, std::uint32_t mask) {
      a.state = state;
      BRDMA_CHECK(engine_->modify_qp(qp_, a, kQpAttrState | mask, now_).ok());
    };
    go(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | (uc ? kQpAttrAccess : kQpAttrQkey));
    go(QpState::kRtr, uc ? kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn : 0);
    go(QpState::kRts, kQpAttrSqPsn);
    expected_ = Psn{};
  }

  // To ERR, from where only RESET leads; or to RESET and back at once; or out of SQE.
  void move() {
    QpAttributes a;
    const std::uint8_t how = input_.u8() % 3;
    if (how == 0) {
      a.state = QpState::kRts;
      (void)engine_->modify_qp(qp_, a, kQpAttrState, now_);
      return;
    }
    if (how == 1) {
      a.state = QpState::kErr;
      BRDMA_CHECK(engine_->modify_qp(qp_, a, kQpAttrState, now_).ok());
      check();
    }
    a.state = QpState::kReset;
    BRDMA_CHECK(engine_->modify_qp(qp_, a, kQpAttrState, now_).ok());
    sends_done_ = sends_posted_;  // dropped, with completions that nobody had polled
    receives_done_ = receives_posted_;
    connect();
  }

  Sge some_sge() {
    const std::uint32_t offset = input_.below(kRegion + 64), length = input_.below(1400);
    return {at(offset), length, input_.u8() % 16 == 0 ? key_ ^ 1 : key_};
  }

  void post_receive() {
    const std::array<Sge, 2> sges{some_sge(), some_sge()};
    const std::size_t count = input_.below(3);
    if (engine_->post_receive(qp_, {receives_posted_, std::span(sges).first(count)}, now_).ok()) ++receives_posted_;
  }

  void post_send() {
    std::array<Sge, 2> sges{some_sge(), some_sge()};
    const AddressHandle to{.local = kOwn, .peer = input_.coin() ? kPeer : kGroup};
    SendRequest request;
    request.wr_id = sends_posted_;
    request.sges = std::span<const Sge>(sges).first(input_.below(3));
    request.opcode = static_cast<WorkOpcode>(input_.u8() % 6);
    request.flags = kSendSignaled;
    const bool inlined = input_.u8() % 4 == 0;
    if (inlined) {  // read at once: must be the application's own
      sges[0] = {at(0), input_.below(80), 0};
      sges[1] = {at(64), 4, 0};
      request.flags |= kSendInline;
    }
    if (input_.u8() % 16 != 0) request.address = &to;
    request.remote_qpn = input_.coin() ? kPeerQpn : input_.u32();
    request.remote_qkey = input_.u32();
    if (engine_->post_send(qp_, request, now_).ok()) ++sends_posted_;
  }

  void transmit() {
    Transmit out;
    for (int i = 0; i < 64 && engine_->poll_transmit(buffer_, out, now_); ++i) {
      std::vector<std::byte> all;
      for (const Slice& slice : out.slices) {
        const auto* data = static_cast<const std::byte*>(slice.data);
        all.insert(all.end(), data, data + slice.size);
      }
      BRDMA_CHECK(all.size() == out.bytes && out.standard);
      const ConstBytes first{all.data(), std::min<std::size_t>(out.segment_bytes, all.size())};
      const auto packet = wire::parse_packet(first);
      BRDMA_CHECK(packet.ok() && packet.value().payload.size() <= mtu_bytes(PathMtu::k256));
      const wire::IcrcPath path{.source = out.source, .destination = out.destination, .source_port = 0xC000};
      BRDMA_CHECK(wire::packet_icrc(path, first) == wire::stored_icrc(first));
    }
  }

  void receive() {
    wire::Packet packet;
    const std::uint8_t transport = type_ == QpType::kUd ? wire::kTransportUd : wire::kTransportUc;
    const auto op = static_cast<std::uint8_t>(type_ == QpType::kUd ? 4 + input_.u8() % 2 : input_.u8() % 12);
    packet.bth.opcode = static_cast<std::uint8_t>(transport | op);
    if (input_.u8() % 32 == 0) packet.bth.opcode = input_.coin() ? 0x04 : 0xC4;
    const bool group = type_ == QpType::kUd && input_.u8() % 4 == 0;
    packet.bth.dest_qpn = group ? 0xFF'FFFF : engine_->qp_num(qp_);
    const std::uint8_t where = input_.u8();
    packet.bth.psn = where < 0xC0 ? expected_ : expected_ + (where & 0x1F) - 16;
    if (where == 0xFF) packet.bth.psn = Psn{input_.u32()};
    expected_ = packet.bth.psn + 1;
    packet.deth = {.qkey = input_.u8() % 8 == 0 ? input_.u32() : kQkey, .source_qpn = kPeerQpn};
    packet.reth = {at(input_.below(kRegion + 64)), input_.u8() % 16 == 0 ? key_ ^ 1 : key_, input_.below(1400)};
    constexpr std::array<std::size_t, 4> kSizes{256, 0, 17, 257};
    const std::uint8_t size_code = input_.u8();
    const std::size_t size = size_code < 0xC0 ? kSizes[0] : size_code < 0xF0 ? kSizes[size_code % 4] : input_.u8();
    packet.bth.pad = static_cast<std::uint8_t>((0 - size) & 3);
    std::vector<std::byte> bytes(wire::kPacketHeadersMax);
    bytes.resize(wire::emit_headers(packet, bytes.data()));
    bytes.resize(bytes.size() + size + packet.bth.pad + wire::kIcrcSize, std::byte{0xEE});
    Datagram datagram;
    datagram.source = kPeer;
    datagram.destination = group ? kGroup : kOwn;
    datagram.source_port = 0xC000;
    datagram.ip_id_known = true;
    const wire::IcrcPath path{.source = kPeer, .destination = datagram.destination, .source_port = 0xC000};
    store_le32(&bytes[bytes.size() - wire::kIcrcSize], wire::packet_icrc(path, bytes));
    datagram.bytes = bytes;
    engine_->handle_datagram(datagram, now_);
    while (engine_->poll_notification()) continue;
  }

  void check() {
    std::uint64_t counted = statistics_.get(Counter::kAcceptedPackets);
    for (const std::uint64_t drops : statistics_.drops) counted += drops;
    BRDMA_CHECK(counted == statistics_.get(Counter::kReceivedPackets));
    check_completions(send_cq_, sends_done_, sends_posted_);
    check_completions(receive_cq_, receives_done_, receives_posted_);
    for (std::size_t i = 0; i < kGuard; ++i) {
      BRDMA_CHECK(memory_[i] == kGuardByte && memory_[kGuard + kRegion + i] == kGuardByte);
    }
    now_ = now_ + 1_us;
  }

  void check_completions(CompletionQueue* cq, std::uint64_t& done, std::uint64_t posted) {
    std::array<Completion, 64> completions;
    const std::size_t count = engine_->poll_cq(cq, completions);
    for (std::size_t i = 0; i < count; ++i) BRDMA_CHECK(completions[i].wr_id == done++);
    BRDMA_CHECK(done <= posted);
  }

  fuzz::InputReader& input_;
  std::vector<std::byte> memory_;
  EngineConfig config_;
  Statistics statistics_;
  std::unique_ptr<Engine> engine_;
  CompletionQueue* send_cq_ = nullptr;
  CompletionQueue* receive_cq_ = nullptr;
  QueuePair* qp_ = nullptr;
  QpType type_ = QpType::kUc;
  std::uint32_t key_ = 0;
  Psn expected_;
  std::uint64_t sends_posted_ = 0, sends_done_ = 0, receives_posted_ = 0, receives_done_ = 0;
  TransmitBuffer buffer_{};
  Instant now_ = Instant::from_ns(1'000'000);
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr unsigned kStepsMax = 300;
  fuzz::InputReader input{data, size};
  World world{input};
  for (unsigned i = 0; i < kStepsMax && !input.empty(); ++i) world.step();
  return 0;
}
