// The real librdmacm on our node: identifiers on loopback in one process.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cstdlib>
#include <cstring>
#include <set>

#include "provider/rdma_cm/rdma_cm_ids.h"

namespace brdma::test {
namespace {

TEST(RdmaCm, ConnectsAndEndsOnLoopback) {
  Channel server, client;
  ASSERT_NE(server.channel, nullptr);
  Id listener(server), active(client);
  sockaddr_in any = loopback(0);
  ASSERT_EQ(rdma_bind_addr(listener.id, reinterpret_cast<sockaddr*>(&any)), 0) << std::strerror(errno);
  ASSERT_EQ(rdma_listen(listener.id, 1), 0);
  const std::uint16_t port = ntohs(rdma_get_src_port(listener.id));
  ASSERT_NE(port, 0);
  resolve(client, active.id, port);
  make_qp(active.id);
  rdma_conn_param parameters{};
  const char hello[] = "hello";
  parameters.private_data = hello;
  parameters.private_data_len = sizeof hello;
  parameters.retry_count = parameters.rnr_retry_count = 7;
  ASSERT_EQ(rdma_connect(active.id, &parameters), 0) << std::strerror(errno);

  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(server.channel, &event), 0);
  ASSERT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(event->listen_id, listener.id);
  EXPECT_STREQ(static_cast<const char*>(event->param.conn.private_data), hello);
  rdma_cm_id* const child = event->id;
  rdma_ack_cm_event(event);
  make_qp(child);
  rdma_conn_param answer{};
  ASSERT_EQ(rdma_accept(child, &answer), 0) << std::strerror(errno);
  EXPECT_EQ(next_event(client), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(next_event(server), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_get_dst_port(child), rdma_get_src_port(active.id));

  EXPECT_EQ(rdma_disconnect(active.id), 0);
  EXPECT_EQ(next_event(client), RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(next_event(server), RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_disconnect(child), 0);
  rdma_destroy_qp(child);
  EXPECT_EQ(rdma_destroy_id(child), 0);
  rdma_destroy_qp(active.id);
}

TEST(RdmaCm, NobodyListens) {
  Channel channel;
  Id active(channel);
  resolve(channel, active.id, 7);
  make_qp(active.id);
  rdma_conn_param parameters{};
  ASSERT_EQ(rdma_connect(active.id, &parameters), 0);
  int status = 0;
  EXPECT_EQ(next_event(channel, nullptr, &status), RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(status, 8);
  rdma_destroy_qp(active.id);
}

TEST(RdmaCm, MistakesHaveTheirErrno) {
  Channel channel;
  Id first(channel), second(channel);
  sockaddr_in address = loopback(7174);
  ASSERT_EQ(rdma_bind_addr(first.id, reinterpret_cast<sockaddr*>(&address)), 0);
  EXPECT_EQ(rdma_bind_addr(second.id, reinterpret_cast<sockaddr*>(&address)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  address.sin_addr.s_addr = htonl(0xC0000201);  // not of this host
  EXPECT_EQ(rdma_bind_addr(second.id, reinterpret_cast<sockaddr*>(&address)), -1);
  EXPECT_EQ(errno, ENODEV);
}

TEST(RdmaCm, AnEmptyChannelDoesNotBlockWhoSaysSo) {
  Channel channel;
  ASSERT_EQ(::fcntl(channel.channel->fd, F_SETFL, O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel.channel, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST(RdmaCm, AClosedChannelTakesItsIdentifiersWithIt) {
  Channel other;
  Id id(other);
  sockaddr_in address = loopback(7174);
  {
    Channel channel;
    rdma_cm_id* left = nullptr;
    ASSERT_EQ(rdma_create_id(channel.channel, &left, nullptr, RDMA_PS_TCP), 0);
    ASSERT_EQ(rdma_bind_addr(left, reinterpret_cast<sockaddr*>(&address)), 0);
    EXPECT_EQ(rdma_bind_addr(id.id, reinterpret_cast<sockaddr*>(&address)), -1);
  }
  EXPECT_EQ(rdma_bind_addr(id.id, reinterpret_cast<sockaddr*>(&address)), 0) << std::strerror(errno);
}

// An interface loses its address, and then is deleted; a listener on it and a connection's end are notified.
TEST(RdmaCm, AddressesAndDevicesThatGo) {
  const auto run = [](const char* command) { ASSERT_EQ(std::system(command), 0) << command; };
  run("ip link add brdc0 type veth peer name brdc1");
  run("ip address add 10.9.7.1/24 dev brdc0");
  run("ip address add 10.9.7.2/24 dev brdc0");
  run("ip link set brdc1 up");
  run("ip link set brdc0 up");
  {
    Channel channel;
    Id first(channel), second(channel), everywhere(channel);
    sockaddr_in address = loopback(7174);
    ASSERT_EQ(::inet_pton(AF_INET, "10.9.7.1", &address.sin_addr), 1);
    ASSERT_EQ(rdma_bind_addr(first.id, reinterpret_cast<sockaddr*>(&address)), 0) << std::strerror(errno);
    ASSERT_EQ(rdma_listen(first.id, 1), 0);
    ASSERT_EQ(::inet_pton(AF_INET, "10.9.7.2", &address.sin_addr), 1);
    ASSERT_EQ(rdma_bind_addr(second.id, reinterpret_cast<sockaddr*>(&address)), 0) << std::strerror(errno);
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    address.sin_port = htons(7175);
    ASSERT_EQ(rdma_bind_addr(everywhere.id, reinterpret_cast<sockaddr*>(&address)), 0);
    ASSERT_NE(first.id->verbs, nullptr);
    run("ip address del 10.9.7.2/24 dev brdc0");
    rdma_cm_id* event_id = nullptr;
    ASSERT_EQ(next_event(channel, &event_id), RDMA_CM_EVENT_ADDR_CHANGE);
    EXPECT_EQ(event_id, second.id);
    run("ip link del brdc0");
    std::set<rdma_cm_id*> removed;
    for (int i = 0; i < 2; ++i) {
      ASSERT_EQ(next_event(channel, &event_id), RDMA_CM_EVENT_DEVICE_REMOVAL);
      removed.insert(event_id);
    }
    EXPECT_EQ(removed, (std::set<rdma_cm_id*>{first.id, second.id}));
  }
}

}  // namespace
}  // namespace brdma::test
