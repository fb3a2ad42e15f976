// Extended reliable connections through the real libibverbs: domains, their shared receive queues, both halves.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

// A file that is gone with the object.
class File {
 public:
  File() : fd_(::mkstemp(path_)) { EXPECT_GE(fd_, 0); }
  ~File() {
    ::close(fd_);
    ::unlink(path_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  char path_[32] = "/tmp/brdma-xrc-XXXXXX";
  int fd_;
};

ibv_xrcd* open_domain(ibv_context* context, int fd, int flags) {
  ibv_xrcd_init_attr wanted{.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = flags};
  errno = 0;
  return ibv_open_xrcd(context, &wanted);
}

ibv_srq_init_attr_ex usual_queue(ibv_pd* pd, ibv_xrcd* domain, ibv_cq* cq) {
  ibv_srq_init_attr_ex wanted{};
  wanted.attr = {.max_wr = 16, .max_sge = 2, .srq_limit = 0};
  wanted.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  wanted.srq_type = IBV_SRQT_XRC;
  wanted.pd = pd;
  wanted.xrcd = domain;
  wanted.cq = cq;
  return wanted;
}

ibv_qp_init_attr_ex usual_target(ibv_xrcd* domain) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_XRC_RECV;
  wanted.comp_mask = IBV_QP_INIT_ATTR_XRCD;
  wanted.xrcd = domain;
  return wanted;
}

ibv_qp_init_attr_ex usual_initiator(Side& side, std::uint64_t operations = 0) {
  ibv_qp_init_attr_ex wanted{};
  wanted.qp_type = IBV_QPT_XRC_SEND;
  wanted.send_cq = side.cq.get();
  wanted.cap = {.max_send_wr = 16, .max_recv_wr = 0, .max_send_sge = 2, .max_recv_sge = 0, .max_inline_data = 0};
  wanted.sq_sig_all = 1;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | (operations == 0 ? 0u : unsigned{IBV_QP_INIT_ATTR_SEND_OPS_FLAGS});
  wanted.pd = side.pd.get();
  wanted.send_ops_flags = operations;
  return wanted;
}

// Side a has the initiator, side b domain, shared receive queue and target.
class Xrc : public testing::Test {
 protected:
  explicit Xrc(std::uint64_t operations = 0) : a(Side::make()), b(Side::make()) {
    domain = open_domain(b.context.get(), file.fd(), O_CREAT);
    EXPECT_NE(domain, nullptr);
    auto queue = usual_queue(b.pd.get(), domain, b.cq.get());
    srq = ibv_create_srq_ex(b.context.get(), &queue);
    EXPECT_NE(srq, nullptr);
    auto initiator = usual_initiator(a, operations);
    a.qp.reset(ibv_create_qp_ex(a.context.get(), &initiator));
    auto target = usual_target(domain);
    b.qp.reset(ibv_create_qp_ex(b.context.get(), &target));
    EXPECT_NE(a.qp, nullptr);
    EXPECT_NE(b.qp, nullptr);
    connect(a, b);
  }
  ~Xrc() override {
    b.qp.reset();
    EXPECT_EQ(srq == nullptr ? 0 : ibv_destroy_srq(srq), 0);
    EXPECT_EQ(domain == nullptr ? 0 : ibv_close_xrcd(domain), 0);
  }
  [[nodiscard]] static std::uint32_t number_of(ibv_srq* queue) {
    std::uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(queue, &number), 0);
    EXPECT_NE(number, 0u);
    return number;
  }
  int post_shared(ibv_srq* queue, std::uint64_t wr_id) {
    ibv_sge sge = b.sge(wr_id * 256, 256);
    ibv_recv_wr request{.wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(queue, &request, &bad);
  }
  int send_to(std::uint32_t number) {
    ibv_sge sge = a.sge(0, 200);
    ibv_send_wr request = send_request(sge);
    request.qp_type.xrc.remote_srqn = number;
    return post_send(a, request);
  }
  File file;
  Side a, b;
  ibv_xrcd* domain = nullptr;
  ibv_srq* srq = nullptr;
};

TEST_F(Xrc, ASendFillsAReceiveOfTheNamedQueue) {
  ASSERT_EQ(post_shared(srq, 3), 0);
  ASSERT_EQ(send_to(number_of(srq)), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  const ibv_wc done = wait_completion(b.cq.get());
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(done.wr_id, 3u);
  EXPECT_EQ(done.byte_len, 200u);
  EXPECT_EQ(done.qp_num, b.qp->qp_num);
}

TEST_F(Xrc, ANumberThatThePeerDoesNotHaveEndsTheConnection) {
  ASSERT_EQ(send_to(number_of(srq) + 1), 0);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(send_to(1u << 24), EINVAL);
}

TEST_F(Xrc, TheDomainsFileIsItsNameInOtherContextsToo) {
  Side c = Side::make();
  ibv_xrcd* const same = open_domain(c.context.get(), file.fd(), 0);
  ASSERT_NE(same, nullptr);
  auto wanted = usual_queue(c.pd.get(), same, c.cq.get());
  ibv_srq* const other = ibv_create_srq_ex(c.context.get(), &wanted);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(number_of(other), number_of(srq));
  ibv_sge sge = c.sge(0, 256);
  ibv_recv_wr request{.wr_id = 9, .next = nullptr, .sg_list = &sge, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_srq_recv(other, &request, &bad), 0);
  ASSERT_EQ(send_to(number_of(other)), 0);  // b's target
  EXPECT_EQ(wait_completion(c.cq.get()).wr_id, 9u);
  EXPECT_EQ(ibv_close_xrcd(same), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(other), 0);
  EXPECT_EQ(ibv_close_xrcd(same), 0);
}

TEST_F(Xrc, WhatIsInUseIsBusy) {
  EXPECT_EQ(ibv_close_xrcd(domain), EBUSY);
  EXPECT_EQ(ibv_destroy_cq(b.cq.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_pd(b.pd.get()), EBUSY);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  srq = nullptr;
  EXPECT_EQ(ibv_close_xrcd(domain), EBUSY) << "the target is left";
  b.qp.reset();
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
  domain = nullptr;
}

TEST_F(Xrc, DomainsAreOpenedAsTheKernelsAre) {
  const File another;
  ibv_context* const context = b.context.get();
  EXPECT_EQ(open_domain(context, another.fd(), 0), nullptr);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(open_domain(context, file.fd(), O_CREAT | O_EXCL), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(open_domain(context, 1 << 20, O_CREAT), nullptr);
  EXPECT_EQ(errno, EBADF);
  ibv_xrcd_init_attr without_flags{.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1, .oflags = 0};
  EXPECT_EQ(ibv_open_xrcd(context, &without_flags), nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_xrcd* const own = open_domain(context, -1, O_CREAT);
  ASSERT_NE(own, nullptr);
  EXPECT_EQ(ibv_close_xrcd(own), 0);
}

TEST_F(Xrc, ObjectsThatDoNotFitAreRefused) {
  const auto queue_refused = [&](int error, auto change) {
    auto wanted = usual_queue(b.pd.get(), domain, b.cq.get());
    change(wanted);
    errno = 0;
    return ibv_create_srq_ex(b.context.get(), &wanted) == nullptr && errno == error;
  };
  using Queue = ibv_srq_init_attr_ex;
  EXPECT_TRUE(queue_refused(EINVAL, [](Queue& wanted) { wanted.comp_mask &= ~unsigned{IBV_SRQ_INIT_ATTR_CQ}; }));
  EXPECT_TRUE(queue_refused(EINVAL, [](Queue& wanted) { wanted.xrcd = nullptr; }));
  EXPECT_TRUE(queue_refused(EINVAL, [this](Queue& wanted) { wanted.pd = a.pd.get(); }));
  EXPECT_TRUE(queue_refused(EINVAL, [](Queue& wanted) { wanted.attr.max_wr = 1u << 30; }));
  const auto pair_refused = [&](int error, ibv_context* context, ibv_qp_init_attr_ex wanted) {
    errno = 0;
    return ibv_create_qp_ex(context, &wanted) == nullptr && errno == error;
  };
  EXPECT_TRUE(pair_refused(EINVAL, a.context.get(), usual_target(domain))) << "the domain is of another context";
  auto target = usual_target(domain);
  target.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  target.send_ops_flags = IBV_QP_EX_WITH_SEND;
  EXPECT_TRUE(pair_refused(EINVAL, b.context.get(), target));
  target = usual_target(nullptr);
  EXPECT_TRUE(pair_refused(EINVAL, b.context.get(), target));
  auto initiator = usual_initiator(a);
  initiator.send_cq = nullptr;
  EXPECT_TRUE(pair_refused(EINVAL, a.context.get(), initiator));
  ibv_qp_init_attr plain = usual_queue_pair(b.cq.get());
  plain.qp_type = IBV_QPT_XRC_RECV;
  EXPECT_EQ(ibv_create_qp(b.pd.get(), &plain), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(Xrc, EachHalfTakesOnlyItsOwnRequests) {
  EXPECT_EQ(post_receive(a, 1, 0, 8), EINVAL);
  EXPECT_EQ(post_receive(b, 1, 0, 8), EINVAL);
  ibv_sge sge = b.sge(0, 8);
  EXPECT_EQ(post_send(b, send_request(sge)), EINVAL);
}

class XrcByFunctions : public Xrc {
 protected:
  XrcByFunctions() : Xrc(IBV_QP_EX_WITH_SEND) {}
};

TEST_F(XrcByFunctions, TheQueueIsNamedByAFunction) {
  ASSERT_EQ(post_shared(srq, 4), 0);
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(a.qp.get());
  ASSERT_NE(qp, nullptr);
  ibv_wr_start(qp);
  qp->wr_id = 1;
  qp->wr_flags = 0;
  ibv_wr_send(qp);
  ibv_wr_set_xrc_srqn(qp, number_of(srq));
  ibv_wr_set_sge(qp, a.mr->lkey, reinterpret_cast<std::uintptr_t>(a.memory.data()), 100);
  ASSERT_EQ(ibv_wr_complete(qp), 0);
  EXPECT_EQ(wait_completion(b.cq.get()).wr_id, 4u);
}

TEST(XrcOfADevice, IsSaidToBeThere) {
  const auto context = open_first_device();
  ibv_device_attr device{};
  ASSERT_EQ(ibv_query_device(context.get(), &device), 0);
  EXPECT_NE(device.device_cap_flags & IBV_DEVICE_XRC, 0u);
}

}  // namespace
}  // namespace brdma::test
