#include "endpoint.h"

#include <net/if.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "io/shard/clock.h"
#include "test_network.h"

namespace brdma::test {
namespace {

void must(Status status, const char* what) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s: error %d\n", what, status.error());
  std::abort();
}

template <class T>
T must(Result<T, Status> result, const char* what) {
  must(result.ok() ? Status{} : result.reason(), what);
  return std::move(result).value();
}

constexpr std::uint32_t kFirstPsn = 0xFFFF00;  // wraps early

}  // namespace

Endpoint::Endpoint(io::Lease lease, IpAddress ip, const EndpointOptions& options, NotificationHandler* handler)
    : memory(options.memory_bytes), statistics(lease.statistics), options_(options), ip_(ip) {
  DeviceInfo device;
  device.name = "brdma_test";
  if (over_xdp()) device.ifindex = if_nametoindex(test_interface());
  auto made = io::ContextImpl::make(device, std::move(lease), options.context, handler);
  if (!made) {
    std::fprintf(stderr, "%s\n", made.reason().message.c_str());
    std::abort();
  }
  context = std::move(made).value();
  Context::Session session{*context};
  Engine& engine = session.engine();
  pd = engine.alloc_pd();
  const auto address = reinterpret_cast<std::uint64_t>(memory.data());
  region =
      must(engine.register_memory(pd, address, memory.size(), address,
                                  kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic),
           "register_memory");
  keys = engine.info(region);
  send_cq = must(engine.create_cq(1024, this), "create_cq");
  receive_cq = must(engine.create_cq(1024, this), "create_cq");
  QpCreate request;
  request.pd = pd;
  request.send_cq = send_cq;
  request.receive_cq = receive_cq;
  request.capabilities = {options.send_wr_max, options.receive_wr_max, 1, 1, 64};
  request.user = this;
  qp = must(engine.create_qp(request), "create_qp");
  qpn_ = engine.qp_num(qp);
}

Endpoint::~Endpoint() = default;

PeerInfo Endpoint::info() const {
  return {qpn_, kFirstPsn, keys.rkey, reinterpret_cast<std::uint64_t>(memory.data()), ip_};
}

void Endpoint::connect(const PeerInfo& peer) {
  peer_ = peer;
  Context::Session session{*context};
  const Instant now = Instant::from_ns(session.now_ns());
  QpAttributes attributes;
  attributes.state = QpState::kInit;
  attributes.access = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;
  must(session.engine().modify_qp(qp, attributes, kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess, now),
       "to INIT");
  attributes.state = QpState::kRtr;
  attributes.path_mtu = options_.mtu;
  attributes.destination_qpn = peer.qpn;
  attributes.receive_psn = Psn{peer.first_psn};
  attributes.local_address = ip_;
  attributes.peer_address = peer.ip;
  attributes.max_dest_rd_atomic = 16;
  must(session.engine().modify_qp(qp, attributes,
                                  kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                                      kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer,
                                  now),
       "to RTR");
  attributes.state = QpState::kRts;
  attributes.send_psn = Psn{kFirstPsn};
  attributes.timeout = options_.timeout;
  attributes.retry_count = options_.retry_count;
  attributes.max_rd_atomic = 16;
  must(
      session.engine().modify_qp(
          qp, attributes,
          kQpAttrState | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic, now),
      "to RTS");
}

Status Endpoint::post(WorkOpcode opcode, const Work& work) { return post_list(opcode, std::vector<Work>{work}); }

Status Endpoint::post_list(WorkOpcode opcode, const std::vector<Work>& list) {
  std::vector<Sge> sges(list.size());
  std::vector<SendRequest> requests(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Work& work = list[i];
    sges[i] = {reinterpret_cast<std::uint64_t>(memory.data()) + work.offset, work.bytes, keys.lkey};
    requests[i].wr_id = work.wr_id;
    requests[i].sges = {&sges[i], 1};
    requests[i].opcode = opcode;
    requests[i].flags = work.flags;
    requests[i].immediate_be = work.immediate;
    requests[i].remote_address = peer_.address + work.remote;
    requests[i].rkey = peer_.rkey;
    requests[i].compare_or_add = work.compare_or_add;
    requests[i].swap = work.swap;
  }
  std::size_t posted = 0;
  return context->post_send(qp, requests, posted);
}

Status Endpoint::post_receive(std::size_t offset, std::uint32_t bytes, std::uint64_t wr_id) {
  const Sge sge{reinterpret_cast<std::uint64_t>(memory.data()) + offset, bytes, keys.lkey};
  const ReceiveRequest request{wr_id, {&sge, 1}};
  std::size_t posted = 0;
  return context->post_receive(qp, {&request, 1}, posted);
}

}  // namespace brdma::test
