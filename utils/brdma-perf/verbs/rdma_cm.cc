#include "verbs/rdma_cm.h"

#include <endian.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <random>

#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr int kResolveMs = 5000, kBacklog = 64;

struct PrivateData {
  std::uint64_t token;
  std::uint32_t lane;
} __attribute__((packed));

[[noreturn]] void fail(const char* verb) {
  throw RunError(std::string{verb} + ": " + std::strerror(errno) +
                 "; is there an RDMA device on this interface? Without -R no RDMA-CM is needed");
}

struct AddressInfo {
  explicit AddressInfo(const std::string& address, const char* port) {
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(address.c_str(), port, &hints, &first) != 0) throw RunError("no address for RDMA-CM: " + address);
  }
  AddressInfo(const AddressInfo&) = delete;
  AddressInfo& operator=(const AddressInfo&) = delete;
  ~AddressInfo() { freeaddrinfo(first); }
  addrinfo* first = nullptr;
};

std::unique_ptr<rdma_event_channel, CloseChannel> make_channel() {
  std::unique_ptr<rdma_event_channel, CloseChannel> channel{rdma_create_event_channel()};
  if (!channel) fail("rdma_create_event_channel");
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return channel;
}

CmId make_id(rdma_event_channel* channel) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id");
  return CmId{id};
}

// What an event said; it is acknowledged already.
struct Event {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  rdma_conn_param parameters;
  std::array<std::uint8_t, sizeof(PrivateData)> data{};
};

Event next_event(rdma_event_channel* channel, std::int64_t deadline) {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel, &event) != 0) {
    if (errno != EAGAIN && errno != EINTR) fail("rdma_get_cm_event");
    const std::int64_t left = deadline - clock_ns();
    if (left <= 0) throw RunError("RDMA-CM: no reply in time. Is UDP port 4791 open?");
    pollfd ready{channel->fd, POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(left / 1'000'000) + 1);
  }
  Event taken{event->event, event->status, event->id, event->param.conn, {}};
  const std::size_t size = std::min<std::size_t>(event->param.conn.private_data_len, taken.data.size());
  const bool request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST;
  if (request && event->param.conn.private_data != nullptr) {
    std::memcpy(taken.data.data(), event->param.conn.private_data, size);
  }
  taken.parameters.private_data = nullptr;
  rdma_ack_cm_event(event);
  return taken;
}

void expect(rdma_event_channel* channel, rdma_cm_event_type type, std::int64_t deadline) {
  const Event event = next_event(channel, deadline);
  if (event.type == type) return;
  throw RunError(std::string{"RDMA-CM: "} + rdma_event_str(event.type) + ", status " + std::to_string(event.status));
}

std::uint32_t make_queue_pair(Endpoint& endpoint, std::uint32_t lane, rdma_cm_id* id) {
  ibv_qp_init_attr attributes = endpoint.queue_pair_attributes(lane);
  if (rdma_create_qp(id, endpoint.domain(), &attributes) != 0) {
    attributes = endpoint.queue_pair_attributes(lane);
    attributes.cap.max_inline_data = 0;
    if (rdma_create_qp(id, endpoint.domain(), &attributes) != 0) fail("rdma_create_qp");
  }
  return attributes.cap.max_inline_data;
}

}  // namespace

void destroy_queue_pairs(const std::vector<CmId>& ids) {
  for (const CmId& id : ids) {
    if (id && id->qp != nullptr) rdma_destroy_qp(id.get());
  }
}

CmServer::CmServer(const std::string& address)
    : channel_(make_channel()),
      listener_(make_id(channel_.get())),
      token_(std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()) {
  const AddressInfo info{address, "0"};
  if (rdma_bind_addr(listener_.get(), info.first->ai_addr) != 0) fail("rdma_bind_addr");
  if (listener_->verbs == nullptr) throw RunError("RDMA-CM: no RDMA device has the address " + address);
  if (rdma_listen(listener_.get(), kBacklog) != 0) fail("rdma_listen");
}

std::uint16_t CmServer::port() const { return be16toh(rdma_get_src_port(listener_.get())); }

void CmServer::take_request(Endpoint& endpoint, CmId id, const rdma_conn_param& request) {
  const auto* const data = static_cast<const PrivateData*>(request.private_data);
  const std::uint32_t lane = be32toh(data->lane);
  const bool good = be64toh(data->token) == token_ && lane < lanes_.size() && !lanes_[lane];
  if (!good || id->verbs != context()) {
    rdma_reject(id.get(), nullptr, 0);
    return;
  }
  const std::uint32_t inline_max = make_queue_pair(endpoint, lane, id.get());
  endpoint.adopt(lane, id->qp, inline_max);
  endpoint.post_receives(lane);
  rdma_conn_param parameters{};
  parameters.responder_resources = std::min(request.responder_resources, kReadsMax);
  parameters.initiator_depth = std::min(request.initiator_depth, kReadsMax);
  parameters.rnr_retry_count = kRetries;
  if (rdma_accept(id.get(), &parameters) != 0) fail("rdma_accept");
  lanes_[lane] = std::move(id);
}

void CmServer::accept(Endpoint& endpoint, std::int64_t deadline) {
  lanes_.resize(endpoint.lanes().size());
  for (std::size_t established = 0; established < lanes_.size();) {
    Event event = next_event(channel_.get(), deadline);
    switch (event.type) {
      case RDMA_CM_EVENT_CONNECT_REQUEST:
        event.parameters.private_data = event.data.data();
        take_request(endpoint, CmId{event.id}, event.parameters);
        break;
      case RDMA_CM_EVENT_ESTABLISHED:
        ++established;
        break;
      default:
        throw RunError(std::string{"RDMA-CM: "} + rdma_event_str(event.type));
    }
  }
}

CmClient::CmClient(const std::string& address, std::uint16_t port, std::int64_t deadline)
    : address_(address), port_(port), channel_(make_channel()), first_(resolve(deadline)) {}

CmId CmClient::resolve(std::int64_t deadline) {
  const AddressInfo info{address_, std::to_string(port_).c_str()};
  CmId id = make_id(channel_.get());
  if (rdma_resolve_addr(id.get(), nullptr, info.first->ai_addr, kResolveMs) != 0) fail("rdma_resolve_addr");
  expect(channel_.get(), RDMA_CM_EVENT_ADDR_RESOLVED, deadline);
  if (rdma_resolve_route(id.get(), kResolveMs) != 0) fail("rdma_resolve_route");
  expect(channel_.get(), RDMA_CM_EVENT_ROUTE_RESOLVED, deadline);
  return id;
}

void CmClient::connect(Endpoint& endpoint, std::uint64_t token, std::int64_t deadline) {
  for (std::uint32_t lane = 0; lane < endpoint.lanes().size(); ++lane) {
    lanes_.push_back(lane == 0 ? std::move(first_) : resolve(deadline));
    rdma_cm_id* const id = lanes_.back().get();
    const std::uint32_t inline_max = make_queue_pair(endpoint, lane, id);
    endpoint.adopt(lane, id->qp, inline_max);
    endpoint.post_receives(lane);
    const PrivateData data{htobe64(token), htobe32(lane)};
    rdma_conn_param parameters{};
    parameters.private_data = &data;
    parameters.private_data_len = sizeof data;
    parameters.responder_resources = parameters.initiator_depth = kReadsMax;
    parameters.retry_count = parameters.rnr_retry_count = kRetries;
    if (rdma_connect(id, &parameters) != 0) fail("rdma_connect");
    expect(channel_.get(), RDMA_CM_EVENT_ESTABLISHED, deadline);
  }
}

}  // namespace brdma::perf
