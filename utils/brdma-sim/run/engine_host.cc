#include "run/engine_host.h"

#include <utility>

#include "base/check.h"
#include "qp/loss/sender_judge.h"
#include "qp/state/management.h"

namespace brdma::simulator {
namespace {

constexpr std::uint32_t kAccess = kAccessLocalWrite | kAccessRemoteWrite;
constexpr std::uint64_t kIova = std::uint64_t{1} << 44;  // packets do not depend on the program's memory layout

}  // namespace

EngineHost::EngineHost(sim::World& world, sim::HostConfig config, const ProtocolPlan& plan, std::span<std::byte> memory)
    : plan_(plan), memory_(memory), host_(world.add_host(config)) {}

void EngineHost::make_objects(std::uint32_t completions) {
  Engine& engine = host_.engine();
  pd_ = engine.alloc_pd();
  const auto region =
      engine.register_memory(pd_, reinterpret_cast<std::uintptr_t>(memory_.data()), memory_.size(), kIova, kAccess);
  BRDMA_CHECK(region.ok());
  region_ = region.value();
  const auto cq = engine.create_cq(completions, this);
  BRDMA_CHECK(cq.ok());
  cq_ = cq.value();
  engine.request_notify(cq_, false);
}

EngineConnection::EngineConnection(sim::World& world, EngineHost& from, EngineHost& to, std::uint32_t mtu)
    : world_(&world), from_{&from, make_pair(from)}, to_{&to, make_pair(to)} {
  connect(from_, to_, mtu);
  connect(to_, from_, mtu);
  const ProtocolPlan& plan = from.plan();
  if (plan.irn_low) from_.pair->manage().follow_irn(qp::IrnTimeouts{*plan.irn_low, *plan.irn_high});
}

QueuePair* EngineConnection::make_pair(EngineHost& host) {
  QpCreate create;
  create.pd = host.pd_;
  create.send_cq = create.receive_cq = host.cq_;
  create.capabilities = {1, 1, 1, 1, 0};
  const auto pair = host.host_.engine().create_qp(create);
  BRDMA_CHECK(pair.ok());
  return pair.value();
}

void EngineConnection::connect(const End& own, const End& peer, std::uint32_t mtu) const {
  QpAttributes a;
  a.access = kAccess;
  a.path_mtu = mtu == 1024 ? PathMtu::k1024 : mtu == 2048 ? PathMtu::k2048 : PathMtu::k4096;
  a.destination_qpn = peer.host->host_.engine().qp_num(peer.pair);
  a.local_address = own.host->host_.address();
  a.peer_address = peer.host->host_.address();
  a.timeout = own.host->plan_.timeout;
  a.retry_count = own.host->plan_.retry_count;
  const auto move = [&](QpState state, std::uint32_t mask) {
    a.state = state;
    BRDMA_CHECK(own.host->host_.engine().modify_qp(own.pair, a, mask | kQpAttrState, world_->now()).ok());
  };
  move(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess);
  move(QpState::kRtr,
       kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer);
  move(QpState::kRts, kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic);
  own.host->host_.touch();
}

void EngineConnection::close() {
  for (const End& end : {from_, to_}) {
    BRDMA_CHECK(end.host->host_.engine().destroy_qp(end.pair).ok());
    end.host->host_.touch();
  }
}

void EngineConnection::write(std::uint64_t bytes, std::uint64_t id) {
  Engine& engine = from_.host->host_.engine();
  const Sge sge{kIova, static_cast<std::uint32_t>(bytes), engine.info(from_.host->region_).lkey};
  SendRequest request;
  request.wr_id = id;
  request.sges = {&sge, 1};
  request.opcode = WorkOpcode::kRdmaWrite;
  request.flags = kSendSignaled;
  request.remote_address = kIova;
  request.rkey = to_.host->host_.engine().info(to_.host->region_).rkey;
  BRDMA_CHECK(engine.post_send(from_.pair, request, world_->now()).ok());
  from_.host->host_.touch();
}

}  // namespace brdma::simulator
