// Asynchronous events of queue pairs, completion queues, the port and the device, through the real libibverbs.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

// The next event, acknowledged. None: nothing within seconds.
std::optional<ibv_async_event> next_event(ibv_context* context) {
  constexpr int kPatienceMs = 10'000;
  pollfd readable{context->async_fd, POLLIN, 0};
  ibv_async_event event{};
  if (::poll(&readable, 1, kPatienceMs) != 1 || ibv_get_async_event(context, &event) != 0) return std::nullopt;
  ibv_ack_async_event(&event);
  return event;
}

// The next of this type; others are skipped.
std::optional<ibv_async_event> next_event(ibv_context* context, ibv_event_type type) {
  for (;;) {
    const auto event = next_event(context);
    if (!event || event->event_type == type) return event;
  }
}

class QueuePairEvents : public testing::Test {
 protected:
  QueuePairEvents() : a(Side::make()), b(Side::make()) {}
  int post(ibv_wr_opcode opcode, std::uint64_t remote_offset = 0) {
    ibv_sge sge = a.sge(0, 8);
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = IBV_SEND_SIGNALED;
    const std::uint64_t address = reinterpret_cast<std::uintptr_t>(b.memory.data()) + remote_offset;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      request.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 0, .rkey = b.mr->rkey};
    } else {
      request.wr.rdma = {.remote_addr = address, .rkey = b.mr->rkey};
    }
    return post_send(a, request);
  }
  Side a, b;
};

TEST_F(QueuePairEvents, FirstPacketBeforeRtsEstablishes) {
  ASSERT_EQ(to_init(a.qp.get()) + to_init(b.qp.get()), 0);
  ASSERT_EQ(to_rtr(a.qp.get(), b.qp.get()) + to_rtr(b.qp.get(), a.qp.get()), 0);
  ASSERT_EQ(to_rts(a.qp.get()), 0);
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  ASSERT_EQ(post(IBV_WR_SEND), 0);
  const auto event = next_event(b.context.get(), IBV_EVENT_COMM_EST);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->element.qp, b.qp.get());
  EXPECT_EQ(to_rts(b.qp.get()), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
}

TEST_F(QueuePairEvents, DrainingIsReportedOnRequest) {
  connect(a, b);
  ASSERT_EQ(post(IBV_WR_SEND), 0);  // waits for a receive
  ibv_qp_attr drain{};
  drain.qp_state = IBV_QPS_SQD;
  drain.en_sqd_async_notify = 1;
  ASSERT_EQ(ibv_modify_qp(a.qp.get(), &drain, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ibv_qp_attr now{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(ibv_query_qp(a.qp.get(), &now, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(now.sq_draining, 1);
  ASSERT_EQ(post_receive(b, 1, 0, 8), 0);
  const auto event = next_event(a.context.get(), IBV_EVENT_SQ_DRAINED);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->element.qp, a.qp.get());
  ASSERT_EQ(ibv_query_qp(a.qp.get(), &now, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(now.sq_draining, 0);
}

TEST_F(QueuePairEvents, ABadRequestIsReportedToItsResponder) {
  connect(a, b);
  ASSERT_EQ(post(IBV_WR_ATOMIC_FETCH_AND_ADD, /*remote_offset=*/4), 0);  // not aligned
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_REM_INV_REQ_ERR);
  const auto event = next_event(b.context.get(), IBV_EVENT_QP_REQ_ERR);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->element.qp, b.qp.get());
}

// Nobody polls: the queue overruns, which stops its queue pair.
TEST_F(QueuePairEvents, AnOverrunIsFatalForQueueAndQueuePair) {
  Side c = Side::make();
  Owned<ibv_cq> small(ibv_create_cq(c.context.get(), 1, nullptr, nullptr, 0));
  ibv_qp_init_attr wanted = usual_queue_pair(small.get());
  c.qp.reset(ibv_create_qp(c.pd.get(), &wanted));
  connect(a, c);
  for (int i = 0; i <= small->cqe; ++i) {
    ASSERT_EQ(post_receive(c, 1, 0, 8), 0);
    ASSERT_EQ(post(IBV_WR_SEND), 0);
  }
  bool cq_error = false, fatal = false;
  while (!cq_error || !fatal) {
    const auto event = next_event(c.context.get());
    ASSERT_TRUE(event);
    if (event->event_type == IBV_EVENT_CQ_ERR) {
      EXPECT_EQ(event->element.cq, small.get());
      cq_error = true;
    } else if (event->event_type == IBV_EVENT_QP_FATAL) {
      EXPECT_EQ(event->element.qp, c.qp.get());
      fatal = true;
    }
  }
  c.qp.reset();  // before its queue
}

// An interface of its own, seen from the program's side: `other` is the far end of the cable.
class PortEvents : public testing::Test {
 protected:
  void SetUp() override {
    run("ip link add brdt0 type veth peer name brdt1");
    run("ip address add 10.9.8.7/24 dev brdt0");
    run("ip link set brdt1 up");
    run("ip link set brdt0 up");
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    for (int i = 0; i < count; ++i) {
      if (std::strcmp(ibv_get_device_name(list[i]), "brdma_brdt0") == 0) context.reset(ibv_open_device(list[i]));
    }
    ibv_free_device_list(list);
    ASSERT_NE(context, nullptr);
    await_state(IBV_PORT_ACTIVE);
  }
  void TearDown() override {
    context.reset();
    [[maybe_unused]] const int gone = std::system("ip link del brdt0 2>/dev/null");
  }
  static void run(const char* command) { ASSERT_EQ(std::system(command), 0) << command; }
  [[nodiscard]] ibv_port_state state() const {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    return port.state;
  }
  // The device may have been opened while the interface was coming up.
  void await_state(ibv_port_state wanted) {
    if (state() == wanted) return;
    ASSERT_TRUE(next_event(context.get(), wanted == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR));
    EXPECT_EQ(state(), wanted);
  }
  [[nodiscard]] bool has_gid(const char* ending) const {
    ibv_port_attr port{};
    EXPECT_EQ(ibv_query_port(context.get(), 1, &port), 0);
    for (int i = 0; i < port.gid_tbl_len; ++i) {
      ibv_gid gid{};
      EXPECT_EQ(ibv_query_gid(context.get(), 1, i, &gid), 0);
      if (std::memcmp(&gid.raw[12], ending, 4) == 0) return true;
    }
    return false;
  }
  Owned<ibv_context> context;
};

TEST_F(PortEvents, GoingDownAndComingBack) {
  run("ip link set brdt0 down");
  const auto down = next_event(context.get(), IBV_EVENT_PORT_ERR);
  ASSERT_TRUE(down);
  EXPECT_EQ(down->element.port_num, 1);
  EXPECT_EQ(state(), IBV_PORT_DOWN);
  run("ip link set brdt0 up");
  const auto up = next_event(context.get(), IBV_EVENT_PORT_ACTIVE);
  ASSERT_TRUE(up);
  EXPECT_EQ(up->element.port_num, 1);
  EXPECT_EQ(state(), IBV_PORT_ACTIVE);
  run("ip link set brdt1 down");  // no carrier
  EXPECT_TRUE(next_event(context.get(), IBV_EVENT_PORT_ERR));
  EXPECT_EQ(state(), IBV_PORT_DOWN);
}

// When the event is there, so are the GIDs. (The kernel's own link-local address makes events, too.)
TEST_F(PortEvents, AddressesComeAndGo) {
  constexpr char kAddress[] = "\x0A\x09\x08\x06";
  EXPECT_FALSE(has_gid(kAddress));
  run("ip address add 10.9.8.6/24 dev brdt0");
  do {
    ASSERT_TRUE(next_event(context.get(), IBV_EVENT_GID_CHANGE));
  } while (!has_gid(kAddress));
  run("ip address del 10.9.8.6/24 dev brdt0");
  do {
    ASSERT_TRUE(next_event(context.get(), IBV_EVENT_GID_CHANGE));
  } while (has_gid(kAddress));
}

TEST_F(PortEvents, TheInterfaceIsRemoved) {
  run("ip link del brdt0");
  EXPECT_TRUE(next_event(context.get(), IBV_EVENT_DEVICE_FATAL));
  EXPECT_EQ(state(), IBV_PORT_DOWN);
}

}  // namespace
}  // namespace brdma::test
