// tests/provider/rdma_cm/rdma_cm_ids.h - set-up for tests of librdmacm: channels, identifiers and connections on
// loopback in one process. Everything waits on events, with a bound.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "io/test_network.h"

namespace brdma::test {

inline constexpr int kPatienceMs = 20'000;

// Of the test network's interface.
inline sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  (void)::inet_pton(AF_INET, test_address4(), &address.sin_addr);
  return address;
}

struct Channel {
  Channel() : channel(rdma_create_event_channel()) { EXPECT_NE(channel, nullptr); }
  ~Channel() { rdma_destroy_event_channel(channel); }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  rdma_event_channel* channel;
};

inline bool readable(const Channel& channel, int at_most_ms = kPatienceMs) {
  pollfd fd{channel.channel->fd, POLLIN, 0};
  return ::poll(&fd, 1, at_most_ms) == 1;
}

// The next event, acknowledged; its type, or -1 if none comes.
inline int next_event(const Channel& channel, rdma_cm_id** id = nullptr, int* status = nullptr) {
  rdma_cm_event* event = nullptr;
  if (!readable(channel) || rdma_get_cm_event(channel.channel, &event) != 0) return -1;
  const int type = event->event;
  if (id != nullptr) *id = event->id;
  if (status != nullptr) *status = event->status;
  rdma_ack_cm_event(event);
  return type;
}

struct Id {
  explicit Id(const Channel& channel, rdma_port_space space = RDMA_PS_TCP) {
    EXPECT_EQ(rdma_create_id(channel.channel, &id, this, space), 0) << std::strerror(errno);
  }
  ~Id() {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
  Id(const Id&) = delete;
  Id& operator=(const Id&) = delete;
  rdma_cm_id* id = nullptr;
};

inline void resolve(const Channel& channel, rdma_cm_id* id, std::uint16_t port) {
  sockaddr_in to = loopback(port);
  ASSERT_EQ(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 1000), 0);
  ASSERT_EQ(next_event(channel), RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(id, 1000), 0);
  ASSERT_EQ(next_event(channel), RDMA_CM_EVENT_ROUTE_RESOLVED);
}

// Listens on a free port; returns it.
inline std::uint16_t listen_somewhere(rdma_cm_id* id, int backlog = 4) {
  sockaddr_in any = loopback(0);
  EXPECT_EQ(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&any)), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_listen(id, backlog), 0) << std::strerror(errno);
  return ntohs(rdma_get_src_port(id));
}

inline void make_qp(rdma_cm_id* id, ibv_qp_type type = IBV_QPT_RC) {
  ibv_qp_init_attr attributes{};
  attributes.qp_type = type;
  attributes.cap = {4, 4, 1, 1, 0};
  ASSERT_EQ(rdma_create_qp(id, nullptr, &attributes), 0) << std::strerror(errno);
}

inline void connect(rdma_cm_id* id, std::uint32_t qpn = 0) {
  rdma_conn_param parameters{};
  parameters.qp_num = qpn;  // librdmacm's own, where the identifier has a queue pair
  parameters.retry_count = parameters.rnr_retry_count = 7;
  ASSERT_EQ(rdma_connect(id, &parameters), 0) << std::strerror(errno);
}

inline void accept(rdma_cm_id* id) {
  rdma_conn_param answer{};
  answer.qp_num = id->qp == nullptr ? 0 : id->qp->qp_num;
  ASSERT_EQ(rdma_accept(id, &answer), 0) << std::strerror(errno);
}

}  // namespace brdma::test
