// Extended completion queues through the real libibverbs: the members of completions, their timestamps, overruns,
// threads; and the verbs that this device lacks, each with its error.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <functional>
#include <thread>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kTimes = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

std::uint64_t raw_clock(ibv_context* context) {
  ibv_values_ex values{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK | 1u << 20, .raw_clock = {}};
  EXPECT_EQ(ibv_query_rt_values_ex(context, &values), 0);
  EXPECT_EQ(values.comp_mask, static_cast<std::uint32_t>(IBV_VALUES_MASK_RAW_CLOCK));
  return static_cast<std::uint64_t>(values.raw_clock.tv_nsec);
}

class ExtendedCq : public testing::Test {
 protected:
  ExtendedCq() : a(Side::make()), b(Side::make()) {}
  ~ExtendedCq() override { b.qp.reset(); }

  // b's queue pair gets an extended completion queue.
  void make(std::uint64_t wc_flags, std::uint32_t flags = 0) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 16;
    wanted.channel = b.channel.get();
    wanted.wc_flags = wc_flags;
    wanted.comp_mask = flags == 0 ? 0 : IBV_CQ_INIT_ATTR_MASK_FLAGS;
    wanted.flags = flags;
    extended = ibv_create_cq_ex(b.context.get(), &wanted);
    ASSERT_NE(extended, nullptr);
    owner.reset(ibv_cq_ex_to_cq(extended));
    ibv_qp_init_attr attributes = usual_queue_pair(owner.get());
    b.qp.reset(ibv_create_qp(b.pd.get(), &attributes));
    ASSERT_NE(b.qp, nullptr);
    connect(a, b);
  }
  void send(std::uint32_t bytes, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge sge = a.sge(0, bytes);
    ibv_send_wr request{};
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND_WITH_IMM;
    request.imm_data = 0x11223344;
    request.send_flags = flags;
    ASSERT_EQ(post_send(a, request), 0);
  }
  // ibv_start_poll() until there is a completion.
  int start() {
    ibv_poll_cq_attr attributes{};
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    int error = ENOENT;
    while (error == ENOENT && std::chrono::steady_clock::now() < end) error = ibv_start_poll(extended, &attributes);
    return error;
  }
  Side a, b;
  ibv_cq_ex* extended = nullptr;
  Owned<ibv_cq> owner;
};

TEST_F(ExtendedCq, MembersAreReadOneByOne) {
  make(IBV_WC_STANDARD_FLAGS);
  ibv_poll_cq_attr attributes{};
  EXPECT_EQ(ibv_start_poll(extended, &attributes), ENOENT);
  attributes.comp_mask = 1;
  EXPECT_EQ(ibv_start_poll(extended, &attributes), EINVAL);
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_EQ(post_receive(b, 100 + i, 0, 64), 0);
  for (std::uint32_t i = 0; i < 5; ++i) send(10 + i);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  ASSERT_EQ(start(), 0);
  for (std::uint32_t i = 0; i < 5; ++i) {
    if (i > 0) {
      ASSERT_EQ(ibv_next_poll(extended), 0);
    }
    EXPECT_EQ(extended->wr_id, 100 + i);
    EXPECT_EQ(extended->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_wc_read_opcode(extended), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_byte_len(extended), 10 + i);
    EXPECT_EQ(ibv_wc_read_imm_data(extended), 0x11223344u);
    EXPECT_EQ(ibv_wc_read_wc_flags(extended), static_cast<unsigned>(IBV_WC_WITH_IMM));
    EXPECT_EQ(ibv_wc_read_qp_num(extended), b.qp->qp_num);
    EXPECT_EQ(ibv_wc_read_vendor_err(extended), 0u);
    EXPECT_EQ(ibv_wc_read_slid(extended), 0u);
    EXPECT_EQ(ibv_wc_read_dlid_path_bits(extended), 0u);
    ibv_wc_read_src_qp(extended);
    ibv_wc_read_sl(extended);
  }
  EXPECT_EQ(ibv_next_poll(extended), ENOENT);
  ibv_end_poll(extended);
  EXPECT_EQ(ibv_start_poll(extended, &(attributes = {})), ENOENT);
}

TEST_F(ExtendedCq, ErrorsHaveTheirStatus) {
  make(IBV_WC_EX_WITH_QP_NUM);
  ASSERT_EQ(post_receive(b, 5, 0, 64), 0);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  ASSERT_EQ(ibv_modify_qp(b.qp.get(), &error, IBV_QP_STATE), 0);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(extended->wr_id, 5u);
  EXPECT_EQ(extended->status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(ibv_wc_read_qp_num(extended), b.qp->qp_num);
  ibv_end_poll(extended);
}

// Not when it was polled.
TEST_F(ExtendedCq, TimestampsSayWhenACompletionWasMade) {
  make(kTimes);
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(b.context.get(), nullptr, &device), 0);
  EXPECT_EQ(device.completion_timestamp_mask, ~std::uint64_t{0});
  EXPECT_EQ(device.hca_core_clock, 1'000'000u);  // kHz: a count is a nanosecond
  ASSERT_EQ(ibv_req_notify_cq(owner.get(), 0), 0);
  ASSERT_EQ(post_receive(b, 1, 0, 64), 0);
  timespec wall_before{}, wall_after{};
  ::clock_gettime(CLOCK_REALTIME, &wall_before);
  const std::uint64_t before = raw_clock(b.context.get());
  send(8);
  ibv_cq* event_cq = nullptr;
  void* context = nullptr;
  ASSERT_EQ(ibv_get_cq_event(b.channel.get(), &event_cq, &context), 0);
  EXPECT_EQ(event_cq, owner.get());
  ibv_ack_cq_events(event_cq, 1);
  const std::uint64_t after = raw_clock(b.context.get());
  ::clock_gettime(CLOCK_REALTIME, &wall_after);
  ASSERT_EQ(start(), 0);
  EXPECT_GE(ibv_wc_read_completion_ts(extended), before);
  EXPECT_LE(ibv_wc_read_completion_ts(extended), after);
  const auto ns = [](const timespec& t) {
    return static_cast<std::uint64_t>(std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec);
  };
  constexpr std::uint64_t kSlack = 1'000'000'000;  // between two clocks that are read one after the other
  EXPECT_GE(ibv_wc_read_completion_wallclock_ns(extended) + kSlack, ns(wall_before));
  EXPECT_LE(ibv_wc_read_completion_wallclock_ns(extended), ns(wall_after) + kSlack);
  ibv_end_poll(extended);
}

TEST_F(ExtendedCq, OverrunsAreIgnoredWhereThatIsAskedFor) {
  make(kTimes | IBV_WC_EX_WITH_BYTE_LEN, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
  const auto room = static_cast<std::uint64_t>(owner->cqe);
  const std::uint64_t count = room + 4;
  for (std::uint64_t i = 0; i < count; ++i) {
    ASSERT_EQ(post_receive(b, i, 0, 64), 0);
    send(8);
    ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  ASSERT_EQ(start(), 0);
  std::uint64_t last = 0;
  for (std::uint64_t i = 4; i < count; ++i) {
    if (i > 4) {
      ASSERT_EQ(ibv_next_poll(extended), 0);
    }
    EXPECT_EQ(extended->wr_id, i);
    EXPECT_GT(ibv_wc_read_completion_ts(extended), last);
    last = ibv_wc_read_completion_ts(extended);
  }
  EXPECT_EQ(ibv_next_poll(extended), ENOENT);
  ibv_end_poll(extended);
}

TEST_F(ExtendedCq, IsAnOrdinaryOneAsWell) {
  make(kTimes, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
  EXPECT_EQ(ibv_resize_cq(owner.get(), 100), 0);
  ASSERT_EQ(post_receive(b, 1, 0, 64), 0);
  send(8);
  EXPECT_EQ(wait_completion(owner.get()).byte_len, 8u);
  ASSERT_EQ(post_receive(b, 2, 0, 64), 0);
  send(8);
  ASSERT_EQ(start(), 0);
  EXPECT_EQ(extended->wr_id, 2u);
  ibv_end_poll(extended);
}

// One thread reads members of one completion, while another polls as well.
TEST_F(ExtendedCq, ThreadsDoNotSeeEachOthersCompletions) {
  make(IBV_WC_EX_WITH_BYTE_LEN);
  constexpr std::uint32_t kRounds = 60;
  // Room for all of them: the threads may be kept from polling for as long as this one sends.
  ASSERT_EQ(ibv_resize_cq(owner.get(), kRounds), 0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::atomic<std::uint32_t> seen{0};
  const auto poll = [&] {
    ibv_poll_cq_attr attributes{};
    while (seen < kRounds && std::chrono::steady_clock::now() < end) {
      if (ibv_start_poll(extended, &attributes) != 0) {
        std::this_thread::yield();
        continue;
      }
      do {
        EXPECT_EQ(extended->wr_id % 50, ibv_wc_read_byte_len(extended));
        ++seen;
      } while (ibv_next_poll(extended) == 0);
      ibv_end_poll(extended);
    }
  };
  std::array threads{std::thread(poll), std::thread(poll)};
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    EXPECT_EQ(post_receive(b, i, 0, 64), 0);
    send(i % 50);
    EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen, kRounds);
}

TEST(ExtendedCqRefused, WhatItCannotDo) {
  const auto context = open_first_device();
  const auto refused = [&](int error, auto change) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 16;
    change(wanted);
    errno = 0;
    return ibv_create_cq_ex(context.get(), &wanted) == nullptr && errno == error;
  };
  using Attributes = ibv_cq_init_attr_ex;
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) { wanted.wc_flags = IBV_WC_EX_WITH_CVLAN; }));
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) { wanted.wc_flags = IBV_WC_EX_WITH_FLOW_TAG; }));
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) { wanted.wc_flags = IBV_WC_EX_WITH_TM_INFO; }));
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) { wanted.comp_mask = 1 << 5; }));
  EXPECT_TRUE(refused(EOPNOTSUPP, [](Attributes& wanted) {
    wanted.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    wanted.flags = 1 << 5;
  }));
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.cqe = 0; }));
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.cqe = ~0u; }));
  EXPECT_TRUE(refused(EINVAL, [](Attributes& wanted) { wanted.comp_vector = 8; }));
}

// Each of them with its own error, none with a crash.
TEST(Refused, VerbsThatThisDeviceHasNot) {
  Side side = Side::make();
  ibv_context* const context = side.context.get();
  ibv_qp* const qp = side.qp.get();
  const std::vector<std::pair<const char*, std::function<int()>>> calls{
      {"modify_qp_rate_limit",
       [&] {
         ibv_qp_rate_limit_attr limit{};
         limit.rate_limit = 1000;
         return ibv_modify_qp_rate_limit(qp, &limit);
       }},
      {"query_ece",
       [&] {
         ibv_ece ece{};
         return ibv_query_ece(qp, &ece);
       }},
      {"set_ece",
       [&] {
         ibv_ece ece{.vendor_id = 1, .options = 1, .comp_mask = 0};
         return ibv_set_ece(qp, &ece);
       }},
      {"attach_mcast",
       [&] {
         ibv_gid group{};
         group.raw[0] = 0xFF;
         return ibv_attach_mcast(qp, &group, 0) == 0 ? 0 : EOPNOTSUPP;  // this queue pair is not UD
       }},
      {"create_flow",
       [&] {
         ibv_flow_attr flow{};
         flow.size = sizeof flow;
         return ibv_create_flow(qp, &flow) == nullptr ? errno : 0;
       }},
      {"open_qp",
       [&] {
         ibv_qp_open_attr open{};
         return ibv_open_qp(context, &open) == nullptr ? errno : 0;
       }},
      {"create_wq",
       [&] {
         ibv_wq_init_attr queue{};
         return ibv_create_wq(context, &queue) == nullptr ? errno : 0;
       }},
      {"create_rwq_ind_table",
       [&] {
         ibv_rwq_ind_table_init_attr table{};
         return ibv_create_rwq_ind_table(context, &table) == nullptr ? errno : 0;
       }},
      {"create_counters",
       [&] {
         ibv_counters_init_attr counters{};
         return ibv_create_counters(context, &counters) == nullptr ? errno : 0;
       }},
      {"create_flow_action_esp",
       [&] {
         ibv_flow_action_esp_attr action{};
         return ibv_create_flow_action_esp(context, &action) == nullptr ? errno : 0;
       }},
      {"import_device", [&] { return ibv_import_device(context->cmd_fd) == nullptr ? errno : 0; }},
  };
  for (const auto& [name, call] : calls) {
    errno = 0;
    EXPECT_EQ(call(), EOPNOTSUPP) << name;
  }
  // Packets of a message are placed as they come, also early ones: nothing is promised.
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND}) {
    EXPECT_EQ(ibv_query_qp_data_in_order(qp, opcode, 0), 0);
  }
}

}  // namespace
}  // namespace brdma::test
