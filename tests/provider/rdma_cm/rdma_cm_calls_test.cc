// librdmacm's less common calls, by the real library: migration of identifiers, options, notifications, connections
// without a queue pair of its own, extended connection establishment, and a server that takes its time.
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "provider/rdma_cm/rdma_cm_ids.h"

namespace brdma::test {
namespace {

void without_waiting(const Channel& channel) {
  ASSERT_EQ(::fcntl(channel.channel->fd, F_SETFL, ::fcntl(channel.channel->fd, F_GETFL) | O_NONBLOCK), 0);
}

// A listener and a client that has requested a connection; both have their queue pairs.
struct Asked {
  Asked() {
    const std::uint16_t port = listen_somewhere(listener.id);
    resolve(client, active.id, port);
    make_qp(active.id);
    connect(active.id);
  }
  // The request, fetched.
  rdma_cm_id* child() {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(next_event(server, &id), RDMA_CM_EVENT_CONNECT_REQUEST);
    return id;
  }
  Channel server, client;
  Id listener{server}, active{client};
};

void end(rdma_cm_id* child) {
  rdma_destroy_qp(child);
  EXPECT_EQ(rdma_destroy_id(child), 0);
}

// Events that wait on the old channel move along: of a listener its requests, of both ends of a connection their
// events. No event comes twice, and none is left behind on the old channel.
TEST(RdmaCmMigration, TakesWaitingEventsAlong) {
  Channel server, client;
  Asked world;
  for (const Channel* channel : {&world.server, &world.client}) without_waiting(*channel);
  ASSERT_TRUE(readable(world.server)) << "the request waits";
  ASSERT_EQ(rdma_migrate_id(world.listener.id, server.channel), 0) << std::strerror(errno);
  EXPECT_FALSE(readable(world.server, 0));
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(world.server.channel, &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  rdma_cm_id* child = nullptr;
  ASSERT_EQ(next_event(server, &child), RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(child->channel, server.channel) << "as its listener";

  make_qp(child);
  accept(child);
  ASSERT_TRUE(readable(world.client)) << "the answer waits";
  ASSERT_EQ(rdma_migrate_id(world.active.id, client.channel), 0) << std::strerror(errno);
  EXPECT_EQ(next_event(client), RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_TRUE(readable(server)) << "that it was confirmed waits";
  ASSERT_EQ(rdma_migrate_id(child, world.server.channel), 0) << std::strerror(errno);
  EXPECT_EQ(next_event(world.server), RDMA_CM_EVENT_ESTABLISHED);

  ASSERT_EQ(rdma_disconnect(world.active.id), 0);
  EXPECT_EQ(next_event(client), RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(next_event(world.server), RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_FALSE(readable(world.client, 0));
  end(child);
}

// Without a channel of the program's: librdmacm makes one, and its calls become synchronous.
TEST(RdmaCmMigration, WithoutAChannelCallsAreSynchronous) {
  Channel server, client;
  Id listener(server), active(client);
  const std::uint16_t port = listen_somewhere(listener.id);
  ASSERT_EQ(rdma_migrate_id(active.id, nullptr), 0) << std::strerror(errno);
  sockaddr_in to = loopback(port);
  ASSERT_EQ(rdma_resolve_addr(active.id, nullptr, reinterpret_cast<sockaddr*>(&to), 1000), 0) << std::strerror(errno);
  ASSERT_EQ(rdma_resolve_route(active.id, 1000), 0) << std::strerror(errno);
  EXPECT_NE(active.id->verbs, nullptr);
  EXPECT_FALSE(readable(client, 0));
  ASSERT_EQ(rdma_migrate_id(active.id, client.channel), 0) << "and back";
  make_qp(active.id);
  connect(active.id);
  rdma_cm_id* child = nullptr;
  ASSERT_EQ(next_event(server, &child), RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(rdma_reject(child, nullptr, 0), 0);
  int status = 0;
  EXPECT_EQ(next_event(client, nullptr, &status), RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(status, 28);
  EXPECT_EQ(rdma_destroy_id(child), 0);
}

// A client gives a silent peer up after 7.3 s; a peer that sends MRA ("still working") is waited for. Real time passes
// here because it is under test.
TEST(RdmaCmCalls, AServerMayTakeItsTime) {
  constexpr int kLongerThanSilenceMs = 8'500;
  Asked world;
  rdma_cm_id* const child = world.child();
  EXPECT_FALSE(readable(world.client, kLongerThanSilenceMs)) << "it waits";
  make_qp(child);
  accept(child);
  EXPECT_EQ(next_event(world.client), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(next_event(world.server), RDMA_CM_EVENT_ESTABLISHED);
  end(child);
}

// A thread reads events, and is a little slow from poll() to rdma_get_cm_event(); another one destroys the identifier
// as its connection ends. A reader that finds its event gone would wait for ever, in rping's client for instance; this
// one does not wait. Not each round: no reader on a busy machine is certain to be in time.
TEST(RdmaCmCalls, AReaderOfAnEventThatHasJustComeFindsIt) {
  constexpr int kRounds = 20;
  int found = 0;
  for (int i = 0; i < kRounds; ++i) {
    Asked world;
    rdma_cm_id* const child = world.child();
    make_qp(child);
    accept(child);
    ASSERT_EQ(next_event(world.client), RDMA_CM_EVENT_ESTABLISHED);
    ASSERT_EQ(next_event(world.server), RDMA_CM_EVENT_ESTABLISHED);
    without_waiting(world.server);
    std::atomic<bool> polled{false};
    std::thread reader([&] {
      EXPECT_TRUE(readable(world.server));
      polled = true;
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      rdma_cm_event* event = nullptr;
      if (rdma_get_cm_event(world.server.channel, &event) != 0) return;
      EXPECT_EQ(event->event, RDMA_CM_EVENT_DISCONNECTED);
      EXPECT_EQ(event->id, child);
      ++found;
      rdma_ack_cm_event(event);
    });
    rdma_destroy_qp(child);
    ASSERT_EQ(rdma_disconnect(world.active.id), 0);
    while (!polled) std::this_thread::yield();
    EXPECT_EQ(rdma_destroy_id(child), 0);
    reader.join();
  }
  EXPECT_GE(found, kRounds / 2);
}

// From release 60 on: an event that the program writes to itself, for instance to wake a thread that waits.
TEST(RdmaCmCalls, AnEventOfTheProgramsOwn) {
  using WriteEvent = int (*)(rdma_cm_id*, int kind, int status, std::uint64_t argument);
  constexpr int kUser = 18, kEstablished = RDMA_CM_EVENT_ESTABLISHED;
  constexpr std::uint64_t kArgument = 0x0102'0304'0506'0708;
  const auto write_event = reinterpret_cast<WriteEvent>(::dlsym(RTLD_DEFAULT, "rdma_write_cm_event"));
  if (write_event == nullptr) GTEST_SKIP() << "not in this librdmacm";
  Channel channel;
  Id id(channel);
  EXPECT_EQ(write_event(id.id, kEstablished, 0, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(write_event(id.id, kUser, 0, kArgument), 0) << std::strerror(errno);
  ASSERT_TRUE(readable(channel));
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(channel.channel, &event), 0) << std::strerror(errno);
  EXPECT_EQ(static_cast<int>(event->event), kUser);
  EXPECT_EQ(event->id, id.id);
  std::uint64_t argument = 0;
  std::memcpy(&argument, &event->param, sizeof argument);
  EXPECT_EQ(argument, kArgument);
  EXPECT_EQ(rdma_ack_cm_event(event), 0);
  EXPECT_FALSE(readable(channel, 0));
}

// What the options say is what the queue pair is set to.
TEST(RdmaCmOptions, TrafficClassAndTimeoutReachTheQueuePair) {
  Channel server, client;
  Id listener(server), active(client);
  std::uint8_t traffic_class = 0x28, timeout = 18;
  EXPECT_EQ(rdma_set_option(active.id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class, sizeof traffic_class), 0);
  EXPECT_EQ(rdma_set_option(active.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout), 0);
  std::uint8_t no_timeout = 32;
  EXPECT_EQ(rdma_set_option(active.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &no_timeout, sizeof no_timeout), -1);
  EXPECT_EQ(errno, EINVAL) << "5 bits";
  const std::uint16_t port = listen_somewhere(listener.id);
  resolve(client, active.id, port);
  make_qp(active.id);
  connect(active.id);
  rdma_cm_id* child = nullptr;
  ASSERT_EQ(next_event(server, &child), RDMA_CM_EVENT_CONNECT_REQUEST);
  make_qp(child);
  accept(child);
  ASSERT_EQ(next_event(client), RDMA_CM_EVENT_ESTABLISHED);
  for (rdma_cm_id* const id : {active.id, child}) {
    ibv_qp_attr set{};
    ibv_qp_init_attr unused{};
    ASSERT_EQ(ibv_query_qp(id->qp, &set, IBV_QP_AV | IBV_QP_TIMEOUT, &unused), 0);
    EXPECT_EQ(set.ah_attr.grh.traffic_class, traffic_class) << "the request names it, for both directions";
    EXPECT_EQ(set.timeout, timeout) << "likewise";
  }
  end(child);
}

TEST(RdmaCmOptions, PortsAreSharedByThoseWhoSaySo) {
  Channel channel;
  Id first(channel), second(channel), unwilling(channel);
  int yes = 1;
  for (rdma_cm_id* const id : {first.id, second.id})
    ASSERT_EQ(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes), 0);
  sockaddr_in address = loopback(7190);
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(rdma_bind_addr(first.id, name), 0);
  EXPECT_EQ(rdma_bind_addr(second.id, name), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_bind_addr(unwilling.id, name), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(rdma_listen(first.id, 1), 0);
  EXPECT_EQ(rdma_listen(second.id, 1), -1);
  EXPECT_EQ(errno, EADDRINUSE) << "only one listens";
}

// :: stands for IPv4 too, unless the program sets otherwise.
TEST(RdmaCmOptions, Ipv6OnlyLeavesIpv4ToOthers) {
  Channel channel;
  for (const bool only : {false, true}) {
    Id six(channel), four(channel);
    int value = only ? 1 : 0;
    ASSERT_EQ(rdma_set_option(six.id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &value, sizeof value), 0);
    sockaddr_in6 any6{};
    any6.sin6_family = AF_INET6;
    any6.sin6_port = htons(7191);
    ASSERT_EQ(rdma_bind_addr(six.id, reinterpret_cast<sockaddr*>(&any6)), 0) << std::strerror(errno);
    sockaddr_in any = loopback(7191);
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    EXPECT_EQ(rdma_bind_addr(four.id, reinterpret_cast<sockaddr*>(&any)) == 0, only);
  }
}

// A program that modifies its queue pair itself gets exactly the attributes that each transition needs.
TEST(RdmaCmCalls, AttributesForEachMove) {
  Asked world;
  rdma_cm_id* const child = world.child();
  const auto attributes = [](rdma_cm_id* id, ibv_qp_state state, ibv_qp_attr& out) {
    out = {};
    out.qp_state = state;
    int mask = 0;
    EXPECT_EQ(rdma_init_qp_attr(id, &out, &mask), 0) << std::strerror(errno);
    return mask;
  };
  ibv_qp_attr init{}, rtr{}, rts{};
  EXPECT_EQ(attributes(child, IBV_QPS_INIT, init),
            IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT);
  EXPECT_EQ(attributes(child, IBV_QPS_RTR, rtr), IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                                     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(attributes(child, IBV_QPS_RTS, rts), IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                                     IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(rtr.dest_qp_num, world.active.id->qp->qp_num);
  EXPECT_EQ(rtr.ah_attr.is_global, 1);
  EXPECT_EQ(rts.retry_cnt, 7);
  EXPECT_EQ(rts.rnr_retry, 7);
  ibv_qp_attr none{};
  none.qp_state = IBV_QPS_RTR;
  int mask = 0;
  EXPECT_EQ(rdma_init_qp_attr(world.listener.id, &none, &mask), -1);
  EXPECT_EQ(errno, EINVAL) << "a listener has no peer";
  EXPECT_EQ(rdma_reject(child, nullptr, 0), 0);
  EXPECT_EQ(next_event(world.client), RDMA_CM_EVENT_REJECTED);
  EXPECT_EQ(rdma_destroy_id(child), 0);
}

// A program whose queue pairs are not librdmacm's: it gets the reply, and reports itself when it is ready. Both sides'
// descriptions of their devices (ECE) arrive.
TEST(RdmaCmCalls, AProgramThatKeepsItsQueuePairsToItself) {
  Channel server, client;
  Id listener(server), active(client);
  const std::uint16_t port = listen_somewhere(listener.id);
  resolve(client, active.id, port);
  ibv_ece ours{.vendor_id = 0x00'15B3, .options = 0x1000'0001, .comp_mask = 0};
  ASSERT_EQ(rdma_set_local_ece(active.id, &ours), 0) << std::strerror(errno);
  connect(active.id, 0x111);
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(server.channel, &event), 0);
  ASSERT_EQ(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
  EXPECT_EQ(event->param.conn.qp_num, 0x111u);
  rdma_cm_id* const child = event->id;
  rdma_ack_cm_event(event);
  ibv_ece seen{};
  ASSERT_EQ(rdma_get_remote_ece(child, &seen), 0) << std::strerror(errno);
  EXPECT_EQ(seen.vendor_id, ours.vendor_id);
  EXPECT_EQ(seen.options, ours.options);
  ibv_ece theirs{.vendor_id = 0x00'15B3, .options = 0x1000'0000, .comp_mask = 0};
  ASSERT_EQ(rdma_set_local_ece(child, &theirs), 0) << std::strerror(errno);
  rdma_conn_param answer{};
  answer.qp_num = 0x222;
  ASSERT_EQ(rdma_accept(child, &answer), 0) << std::strerror(errno);

  ASSERT_EQ(rdma_get_cm_event(client.channel, &event), 0);
  ASSERT_EQ(event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
  EXPECT_EQ(event->param.conn.qp_num, 0x222u);
  rdma_ack_cm_event(event);
  ASSERT_EQ(rdma_get_remote_ece(active.id, &seen), 0) << std::strerror(errno);
  EXPECT_EQ(seen.options, theirs.options);
  EXPECT_FALSE(readable(server, 0)) << "not before the client says so";
  ASSERT_EQ(rdma_establish(active.id), 0) << std::strerror(errno);
  EXPECT_EQ(next_event(server), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_establish(active.id), -1) << "once";
  EXPECT_EQ(rdma_disconnect(active.id), 0);
  EXPECT_EQ(next_event(client), RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(next_event(server), RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(rdma_destroy_id(child), 0);
}

// Data may come before the client's confirmation does: a server that sees it reports so. Here the confirmation is late
// because the client's program is.
TEST(RdmaCmCalls, AServerThatSeesDataFirstSaysSo) {
  Channel server, client;
  Id listener(server), active(client);
  const std::uint16_t port = listen_somewhere(listener.id);
  resolve(client, active.id, port);
  connect(active.id, 0x111);
  rdma_cm_id* child = nullptr;
  ASSERT_EQ(next_event(server, &child), RDMA_CM_EVENT_CONNECT_REQUEST);
  make_qp(child);
  EXPECT_EQ(rdma_notify(child, IBV_EVENT_COMM_EST), -1) << "neither accepted nor refused yet";
  EXPECT_EQ(rdma_notify(child, IBV_EVENT_PATH_MIG), -1);
  EXPECT_EQ(errno, EINVAL) << "of a connection that is none yet";
  accept(child);
  ASSERT_EQ(next_event(client), RDMA_CM_EVENT_CONNECT_RESPONSE);
  ASSERT_EQ(rdma_notify(child, IBV_EVENT_COMM_EST), 0) << std::strerror(errno);
  EXPECT_EQ(next_event(server), RDMA_CM_EVENT_ESTABLISHED);
  EXPECT_EQ(rdma_notify(child, IBV_EVENT_COMM_EST), -1);
  EXPECT_EQ(errno, EISCONN);
  EXPECT_EQ(rdma_notify(child, IBV_EVENT_PATH_MIG), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_notify(child, IBV_EVENT_QP_FATAL), -1);
  EXPECT_EQ(errno, EINVAL) << "no other event is for it";
  ASSERT_EQ(rdma_establish(active.id), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_disconnect(active.id), 0);
  EXPECT_EQ(next_event(server), RDMA_CM_EVENT_DISCONNECTED) << "and got one event of its beginning";
  EXPECT_EQ(next_event(client), RDMA_CM_EVENT_DISCONNECTED);
  end(child);
}

}  // namespace
}  // namespace brdma::test
