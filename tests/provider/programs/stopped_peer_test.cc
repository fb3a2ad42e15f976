// A peer's process is stopped, as by a debugger, and continues, or ends: by real signals, with one brdmad for both. Two
// hosts with a brdmad each: tests/e2e/failures.py.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <thread>
#include <utility>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// Exchanged by two processes: their queue pairs.
struct Address {
  std::uint32_t qpn = 0, rkey = 0;
  std::uint64_t memory = 0;
  ibv_gid gid{};
};

Address address_of(const Side& side) {
  Address address{
      .qpn = side.qp->qp_num, .rkey = side.mr->rkey, .memory = reinterpret_cast<std::uintptr_t>(side.memory.data())};
  EXPECT_EQ(ibv_query_gid(side.context.get(), 1, usual_gid_index(), &address.gid), 0);
  return address;
}

bool connect_to(const Side& side, const Address& peer, std::uint8_t timeout) {
  ibv_qp* const qp = side.qp.get();
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = peer.qpn;
  attributes.rq_psn = peer.qpn & 0xFFFFFF;
  attributes.max_dest_rd_atomic = 4;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.port_num = 1;
  attributes.ah_attr.grh.sgid_index = usual_gid_index();
  attributes.ah_attr.grh.hop_limit = 1;
  attributes.ah_attr.grh.dgid = peer.gid;
  constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  if (to_init(qp) != 0 || ibv_modify_qp(qp, &attributes, kToRtr) != 0) return false;
  ibv_qp_attr sends{};
  sends.qp_state = IBV_QPS_RTS;
  sends.sq_psn = qp->qp_num & 0xFFFFFF;
  sends.timeout = timeout;
  sends.retry_cnt = 7;
  sends.rnr_retry = 7;
  sends.max_rd_atomic = 4;
  constexpr int kToRts =
      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  return ibv_modify_qp(qp, &sends, kToRts) == 0;
}

// Eight times four timeouts of 4.096 us * 2^12 (docs/explanation/engine.md), and a quarter: by then a peer is given up.
constexpr std::uint8_t kTimeout = 12;
constexpr auto kRetries = 537ms;
constexpr auto kGivenUp = kRetries * 5 / 4;

class AnotherProcess : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    pid_ = ::fork();
    ASSERT_GE(pid_, 0);
    if (pid_ == 0) be_peer(ends[1]);
    ::close(ends[1]);
    link_ = ends[0];
    Address theirs;
    ASSERT_EQ(::read(link_, &theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
    own_.emplace(Side::make());
    const Address mine = address_of(*own_);
    ASSERT_TRUE(connect_to(*own_, theirs, kTimeout));
    ASSERT_EQ(::write(link_, &mine, sizeof mine), static_cast<ssize_t>(sizeof mine));
    char connected = 0;
    ASSERT_EQ(::read(link_, &connected, 1), 1);
    peer_ = theirs;
    for (int i = 0; i < 20; ++i) {
      post();
      ASSERT_EQ(wait_completion(own_->cq.get()).status, IBV_WC_SUCCESS);
    }
  }
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (link_ >= 0) ::close(link_);
  }
  [[noreturn]] static void be_peer(int link) {
    const Side side = Side::make();
    const Address mine = address_of(side);
    Address theirs;
    if (::write(link, &mine, sizeof mine) < 0 || ::read(link, &theirs, sizeof theirs) != sizeof theirs ||
        !connect_to(side, theirs, kTimeout) || ::write(link, "c", 1) != 1) {
      ::_exit(1);
    }
    for (;;) ::pause();
  }
  // A WRITE by local reference if that is allowed.
  void post() {
    ibv_sge sge = own_->sge(0, 20'000);
    ibv_send_wr request = send_request(sge);
    request.opcode = IBV_WR_RDMA_WRITE;
    request.wr.rdma = {.remote_addr = peer_.memory, .rkey = peer_.rkey};
    ASSERT_EQ(post_send(*own_, request), 0);
  }
  void stop_peer() {
    ASSERT_EQ(::kill(pid_, SIGSTOP), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(pid_, &status, WUNTRACED), pid_);
    ASSERT_TRUE(WIFSTOPPED(status));
  }
  // Polled for so long; none: no completion.
  std::optional<ibv_wc> completion_within(Clock::duration time) {
    const auto end = Clock::now() + time;
    ibv_wc completion{};
    do {
      if (ibv_poll_cq(own_->cq.get(), 1, &completion) == 1) return completion;
    } while (Clock::now() < end);
    return std::nullopt;
  }

  pid_t pid_ = -1;
  int link_ = -1;
  std::optional<Side> own_;
  Address peer_;
};

TEST_F(AnotherProcess, ThatIsStoppedIsWaitedFor) {
  stop_peer();
  post();
  EXPECT_FALSE(completion_within(kRetries * 3));  // the time of the stop is under test
  ASSERT_EQ(::kill(pid_, SIGCONT), 0);
  EXPECT_EQ(wait_completion(own_->cq.get()).status, IBV_WC_SUCCESS);
  post();
  EXPECT_EQ(wait_completion(own_->cq.get()).status, IBV_WC_SUCCESS);
}

// The requester was stopped: acknowledgements of that time count, and no peer is given up.
TEST_F(AnotherProcess, IsNotGivenUpByOneThatWasStopped) {
  const pid_t asker = ::getpid();
  std::array<int, 2> begun{};
  ASSERT_EQ(::pipe(begun.data()), 0);
  const pid_t debugger = ::fork();
  ASSERT_GE(debugger, 0);
  if (debugger == 0) {
    ::close(begun[1]);
    char end = 0;
    if (::read(begun[0], &end, 1) != 0) ::_exit(1);
    ::kill(asker, SIGSTOP);
    std::this_thread::sleep_for(kRetries * 3);
    ::kill(asker, SIGCONT);
    ::_exit(0);
  }
  ::close(begun[0]);
  int status = -1;
  do {
    post();
    ASSERT_EQ(wait_completion(own_->cq.get()).status, IBV_WC_SUCCESS);
    if (begun[1] >= 0) ::close(std::exchange(begun[1], -1));  // in the midst of writing it is stopped
  } while (::waitpid(debugger, &status, WNOHANG) == 0);
  EXPECT_EQ(status, 0);
}

TEST_F(AnotherProcess, ThatIsKilledIsGivenUpAsSoonAsEver) {
  ASSERT_EQ(::kill(pid_, SIGKILL), 0);
  ASSERT_EQ(::waitpid(pid_, nullptr, 0), pid_);
  pid_ = -1;
  const auto begun = Clock::now();
  post();
  const auto completion = completion_within(10s);
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_GE(Clock::now() - begun, kRetries - 1ms);
  EXPECT_LT(Clock::now() - begun, kGivenUp + 2s) << "on a busy machine";
}

TEST_F(AnotherProcess, ThatIsKilledWhileItIsStoppedIsGivenUp) {
  stop_peer();
  post();
  EXPECT_FALSE(completion_within(kGivenUp));
  ASSERT_EQ(::kill(pid_, SIGKILL), 0);
  ASSERT_EQ(::waitpid(pid_, nullptr, 0), pid_);
  pid_ = -1;
  const auto begun = Clock::now();
  const auto completion = completion_within(10s);
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_LT(Clock::now() - begun, kGivenUp + 2s);
}

}  // namespace
}  // namespace brdma::test
