// The application's actions: posts, good and bad, and state changes of its queue pairs.
#include <array>
#include <cerrno>

#include "base/check.h"
#include "fuzz/engine_world.h"

namespace brdma::fuzz {

// Within the regions mostly; beyond their end and with a wrong key too.
Sge EngineWorld::some_sge() {
  const std::uint8_t how = input_.u8();
  const auto& region = regions_[how % 4 == 3 ? 1 : how % 32 == 6 ? 2 : 0];
  const std::uint32_t offset = input_.u16() % (kRegionBytes + 16);
  const std::uint32_t length = (how & 0x40) != 0 ? input_.u16() % kRegionBytes : input_.u8();
  return Sge{.address = kIova + offset, .length = length, .lkey = region.key ^ (how >= 0xF8 ? 1u : 0u)};
}

void EngineWorld::post_send() {
  Connection& connection = pick();
  std::array<Sge, 3> sges;
  const std::size_t count = input_.below(4);
  for (std::size_t i = 0; i < count; ++i) sges[i] = some_sge();
  SendRequest request;
  request.wr_id = next_wr_id_++;
  request.sges = std::span{sges}.first(count);
  request.opcode = static_cast<WorkOpcode>(input_.below(10));
  request.flags = input_.u8() & (kSendFence | kSendSignaled | kSendSolicited);
  request.immediate_be = request.opcode == WorkOpcode::kSendWithInvalidate ? regions_[0].key : 0x0403'0201;
  request.remote_address = kIova + input_.u16();
  request.rkey = 0x1234'5678;
  request.compare_or_add = 1;
  request.swap = 2;
  const std::array<std::byte, 64> inline_bytes{};
  if (input_.u8() >= 0xE0) {
    request.flags |= kSendInline;
    sges[0] =
        Sge{.address = reinterpret_cast<std::uintptr_t>(inline_bytes.data()), .length = input_.below(65), .lkey = 0};
    request.sges = std::span{sges}.first(1);
  }
  const Status status = engine_->post_send(connection.qp, request, now_);
  BRDMA_CHECK(status.ok() || status.error() == EINVAL || status.error() == ENOMEM || status.error() == EOPNOTSUPP);
  if (status.ok()) connection.sends.push_back({request.wr_id, (request.flags & kSendSignaled) != 0});
  drain();
}

void EngineWorld::post_receive() {
  Connection& connection = pick();
  std::array<Sge, 3> sges;
  const std::size_t count = input_.below(4);
  for (std::size_t i = 0; i < count; ++i) sges[i] = some_sge();
  ReceiveRequest request;
  request.wr_id = next_wr_id_++;
  request.sges = std::span{sges}.first(count);
  const Status status = engine_->post_receive(connection.qp, request, now_);
  BRDMA_CHECK(status.ok() || status.error() == EINVAL || status.error() == ENOMEM);
  if (status.ok()) connection.receives.push_back({request.wr_id, true});
}

// The old key is void from then on, for packets in flight too. Or the completion queue gets another size.
void EngineWorld::register_again() {
  if (input_.coin()) return (void)engine_->resize_cq(cq_, input_.u8() * 16u);
  Region& region = regions_[input_.below(2)];
  BRDMA_CHECK(engine_->deregister_memory(region.handle).ok());
  register_region(region);
}

void EngineWorld::modify() {
  Connection& connection = pick();
  QpAttributes attributes;
  const std::uint8_t how = input_.u8();
  switch (how % 8) {
    case 0:  // to ERR: all posted requests complete as flushed
      attributes.state = QpState::kErr;
      BRDMA_CHECK(engine_->modify_qp(connection.qp, attributes, kQpAttrState, now_).ok());
      drain();
      take_completions();
      BRDMA_CHECK(overrun_ || connection.receives.empty());
      break;
    case 1:
    case 2:  // to RESET and back: posted requests are dropped
      take_completions();
      attributes.state = QpState::kReset;
      BRDMA_CHECK(engine_->modify_qp(connection.qp, attributes, kQpAttrState, now_).ok());
      take_completions();
      connection.sends.clear();
      connection.receives.clear();
      connect(connection);
      break;
    case 3:  // another one in its place
      take_completions();
      destroy(connection);
      create(connection);
      connect(connection);
      break;
    case 4:
      attributes.state = QpState::kSqd;
      (void)engine_->modify_qp(connection.qp, attributes, kQpAttrState, now_);
      break;
    case 5:
      attributes.state = QpState::kRts;
      (void)engine_->modify_qp(connection.qp, attributes, kQpAttrState, now_);
      break;
    default:  // most masks do not fit: then nothing has changed
      attributes.state = static_cast<QpState>(input_.below(7));
      if (attributes.state == QpState::kReset || attributes.state == QpState::kErr) break;
      (void)engine_->modify_qp(connection.qp, attributes, input_.u32() | 4, now_);
      break;
  }
}

}  // namespace brdma::fuzz
