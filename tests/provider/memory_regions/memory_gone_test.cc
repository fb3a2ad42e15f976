// Registered memory that the program removes: unmapped, protected, truncated with its file. Completions with an error
// at both sides, never the end of the program; and the signal handlers of the program itself.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::size_t kBytes = 1 << 20;
constexpr int kEverything =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

// Pages that are removed while their addresses stay reserved: nothing else can be mapped there meanwhile.
class Pages {
 public:
  explicit Pages(ibv_pd* pd, int file = -1)
      : at_(static_cast<char*>(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                      file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, file, 0))) {
    EXPECT_NE(at_, MAP_FAILED);
    std::memset(at_, 0x5A, kBytes);
    mr_.reset(ibv_reg_mr(pd, at_, kBytes, kEverything));
    EXPECT_NE(mr_, nullptr);
  }
  ~Pages() {
    mr_.reset();
    ::munmap(at_, kBytes);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void take(int protection = PROT_NONE) const {
    ASSERT_EQ(::mmap(at_, kBytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at_);
  }
  [[nodiscard]] ibv_sge sge(std::uint32_t bytes) const {
    return {.addr = address(), .length = bytes, .lkey = mr_->lkey};
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(at_); }
  [[nodiscard]] std::uint32_t rkey() const { return mr_->rkey; }
  [[nodiscard]] char* at() const { return at_; }

 private:
  char* at_;
  Owned<ibv_mr> mr_;
};

constexpr std::uint32_t kSmall = 64, kPacket = 1024,
                        kLarge = 700'000;  // the last is passed by reference where possible

class MemoryGone : public testing::TestWithParam<std::uint32_t> {
 protected:
  MemoryGone() { connect(a, b); }

  // Signalled WRITE, READ or SEND between removed memory and memory that stays.
  ibv_send_wr request(ibv_wr_opcode opcode, bool own, bool remote) {
    sge = own ? mine.sge(bytes) : a.sge(0, bytes);
    ibv_send_wr made = write_request(sge, b);
    made.wr_id = 42;
    made.opcode = opcode;
    if (remote) made.wr.rdma = {.remote_addr = theirs.address(), .rkey = theirs.rkey()};
    return made;
  }
  void post_theirs() {
    ibv_sge into = theirs.sge(bytes);
    ibv_recv_wr receive{.wr_id = 7, .next = nullptr, .sg_list = &into, .num_sge = 1}, *bad = nullptr;
    ASSERT_EQ(ibv_post_recv(b.qp.get(), &receive, &bad), 0);
  }
  ibv_wc_status run(const ibv_send_wr& request) {
    EXPECT_EQ(post_send(a, request), 0);
    const ibv_wc done = wait_completion(a.cq.get());
    EXPECT_EQ(done.wr_id, 42u);
    return done.status;
  }
  static ibv_qp_state state_of(const Side& side) {
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(side.qp.get(), &now, IBV_QP_STATE, &init), 0);
    return now.qp_state;
  }
  // Other queue pairs of the same devices go on.
  void expect_others_work() {
    for (Side* const side : {&a, &b}) {
      ibv_qp_init_attr wanted = usual_queue_pair(side->cq.get());
      side->qp.reset(ibv_create_qp(side->pd.get(), &wanted));
      for (ibv_wc rest{}; ibv_poll_cq(side->cq.get(), 1, &rest) == 1;) continue;
    }
    connect(a, b);
    std::memset(a.memory.data(), 0x77, bytes);
    EXPECT_EQ(run(request(IBV_WR_RDMA_WRITE, false, false)), IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(a.memory.data(), b.memory.data(), bytes), 0);
  }

  const std::uint32_t bytes = GetParam();
  Side a = Side::make(kBytes), b = Side::make(kBytes);
  Pages mine{a.pd.get()}, theirs{b.pd.get()};
  ibv_sge sge{};
};

TEST_P(MemoryGone, SourceOfAWrite) {
  mine.take();
  EXPECT_EQ(run(request(IBV_WR_RDMA_WRITE, true, false)), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(state_of(a), IBV_QPS_ERR);
  expect_others_work();
}

TEST_P(MemoryGone, TargetOfAWrite) {
  theirs.take();
  EXPECT_EQ(run(request(IBV_WR_RDMA_WRITE, false, true)), IBV_WC_REM_ACCESS_ERR);
  expect_event(b, IBV_EVENT_QP_ACCESS_ERR, b.qp.get());
  EXPECT_EQ(state_of(b), IBV_QPS_ERR);
  expect_others_work();
}

TEST_P(MemoryGone, TargetThatMayBeReadOnly) {
  theirs.take(PROT_READ);
  EXPECT_EQ(run(request(IBV_WR_RDMA_WRITE, false, true)), IBV_WC_REM_ACCESS_ERR);
  expect_others_work();
}

TEST_P(MemoryGone, SourceOfASend) {
  ASSERT_EQ(post_receive(b, 7, 0, bytes), 0);
  mine.take();
  EXPECT_EQ(run(request(IBV_WR_SEND, true, false)), IBV_WC_LOC_PROT_ERR);
  expect_others_work();
}

TEST_P(MemoryGone, Receive) {
  post_theirs();
  theirs.take();
  EXPECT_EQ(run(request(IBV_WR_SEND, false, false)), IBV_WC_REM_OP_ERR);
  const ibv_wc received = wait_completion(b.cq.get());
  EXPECT_EQ(received.status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(received.wr_id, 7u);
  EXPECT_EQ(state_of(b), IBV_QPS_ERR);
  expect_others_work();
}

// With local reference the requester finds it out (docs/explanation/memory.md).
TEST_P(MemoryGone, SourceOfARead) {
  theirs.take();
  const ibv_wc_status status = run(request(IBV_WR_RDMA_READ, false, true));
  if (status != IBV_WC_REM_OP_ERR) {
    EXPECT_EQ(status, IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(state_of(b), IBV_QPS_ERR);
  }
  expect_others_work();
}

TEST_P(MemoryGone, TargetOfARead) {
  mine.take();
  EXPECT_EQ(run(request(IBV_WR_RDMA_READ, true, false)), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(state_of(a), IBV_QPS_ERR);
  expect_others_work();
}

INSTANTIATE_TEST_SUITE_P(Bytes, MemoryGone, testing::Values(kSmall, kPacket, kLarge));

class MemoryGoneSmall : public MemoryGone {};

TEST_P(MemoryGoneSmall, Atomics) {
  for (const bool own : {true, false}) {
    ibv_send_wr atomic = request(IBV_WR_ATOMIC_FETCH_AND_ADD, own, !own);
    sge.length = 8;
    atomic.wr.atomic = {.remote_addr = own ? reinterpret_cast<std::uintptr_t>(b.memory.data()) : theirs.address(),
                        .compare_add = 1,
                        .swap = 0,
                        .rkey = own ? b.mr->rkey : theirs.rkey()};
    (own ? mine : theirs).take();
    EXPECT_EQ(run(atomic), own ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR);
    expect_others_work();
  }
}

TEST_P(MemoryGoneSmall, InlineDataIsRefused) {
  ibv_send_wr inlined = request(IBV_WR_RDMA_WRITE, true, false);
  inlined.send_flags |= IBV_SEND_INLINE;
  mine.take();
  EXPECT_EQ(post_send(a, inlined), EFAULT);
  EXPECT_EQ(run(request(IBV_WR_RDMA_WRITE, false, false)), IBV_WC_SUCCESS);
}

// SIGBUS instead of SIGSEGV.
TEST_P(MemoryGoneSmall, AFileThatIsCutOff) {
  char name[] = "/tmp/brdma-gone-XXXXXX";
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::unlink(name);
  ASSERT_EQ(::ftruncate(file, kBytes), 0);
  const Pages mapped(b.pd.get(), file);
  ASSERT_EQ(::ftruncate(file, 0), 0);
  ibv_send_wr write = request(IBV_WR_RDMA_WRITE, false, false);
  write.wr.rdma = {.remote_addr = mapped.address(), .rkey = mapped.rkey()};
  EXPECT_EQ(run(write), IBV_WC_REM_ACCESS_ERR);
  expect_others_work();
  ::close(file);
}

// While it is sent, at a random moment: an error, or none if all was acknowledged before.
TEST_P(MemoryGoneSmall, SourceThatGoesUnderWay) {
  for (int round = 0; round < 20; ++round) {
    const Pages source(a.pd.get());
    ibv_sge all = source.sge(kBytes);
    ibv_send_wr write = write_request(all, b);
    write.wr_id = 42;
    ASSERT_EQ(post_send(a, write), 0);
    source.take();
    const ibv_wc done = wait_completion(a.cq.get());
    EXPECT_TRUE(done.status == IBV_WC_SUCCESS || done.status == IBV_WC_LOC_PROT_ERR) << ibv_wc_status_str(done.status);
    if (done.status != IBV_WC_SUCCESS) expect_others_work();
  }
}

// --- the program's own handlers ---
sigjmp_buf back;
volatile sig_atomic_t handled = 0;
const void* volatile handled_at = nullptr;

void remember(int, siginfo_t* info, void*) {
  handled = handled + 1;
  handled_at = info->si_addr;
  siglongjmp(back, 1);
}
void other(int) {}

// Of the program's, and where it was.
void fault_at(char* page) {
  handled = 0;
  if (sigsetjmp(back, 1) == 0) *const_cast<volatile char*>(page) = 1;
  EXPECT_EQ(handled, 1);
  EXPECT_EQ(handled_at, page);
}

TEST_P(MemoryGoneSmall, HandlersThatAProgramInstallsLaterAreItsOwn) {
  struct sigaction before {
  }, mine_now{}, wanted{};
  wanted.sa_sigaction = remember;
  wanted.sa_flags = SA_SIGINFO;
  ASSERT_EQ(::sigaction(SIGSEGV, &wanted, &before), 0);
  EXPECT_EQ(before.sa_handler, SIG_DFL) << "ours";
  ASSERT_EQ(::sigaction(SIGSEGV, nullptr, &mine_now), 0);
  EXPECT_EQ(mine_now.sa_sigaction, remember);
  EXPECT_EQ(::signal(SIGBUS, other), SIG_DFL);
  EXPECT_EQ(::sysv_signal(SIGBUS, SIG_DFL), other);
  EXPECT_EQ(::ssignal(SIGBUS, other), SIG_DFL);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  EXPECT_EQ(::sigset(SIGBUS, SIG_DFL), other);
  EXPECT_EQ(::sigignore(SIGBUS), 0);
#pragma GCC diagnostic pop
  EXPECT_EQ(::signal(SIGBUS, SIG_DFL), SIG_IGN);
  theirs.take();
  fault_at(theirs.at());
  handled = 0;
  EXPECT_EQ(run(request(IBV_WR_RDMA_WRITE, false, true)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(handled, 0);
  fault_at(theirs.at());
  ASSERT_EQ(::sigaction(SIGSEGV, &before, nullptr), 0);
  expect_others_work();
}

// Replaced by a direct system call, as in Go: detected at the next registration.
TEST_P(MemoryGoneSmall, AHandlerThatReplacesOursIsChained) {
  struct KernelAction {
    void (*handler)(int, siginfo_t*, void*) = nullptr;
    unsigned long flags = 0;
    void* restorer_or_mask[2]{};
  } ours, next;
  ASSERT_EQ(::syscall(SYS_rt_sigaction, SIGSEGV, nullptr, &ours, 8), 0);
  next = ours;
  next.handler = remember;
  ASSERT_EQ(::syscall(SYS_rt_sigaction, SIGSEGV, &next, nullptr, 8), 0);
  const Pages again(b.pd.get());
  theirs.take();
  fault_at(theirs.at());
  handled = 0;
  EXPECT_EQ(run(request(IBV_WR_RDMA_WRITE, false, true)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(handled, 0);
  struct sigaction found {
  }, usual{};
  ASSERT_EQ(::sigaction(SIGSEGV, &usual, &found), 0);
  EXPECT_EQ(found.sa_sigaction, remember);
}

INSTANTIATE_TEST_SUITE_P(Bytes, MemoryGoneSmall, testing::Values(kSmall));

// A server whose clean-up frees the buffer before the queue pair, while the client still works on it.
struct PeerInfo {
  std::uint32_t qpn = 0, rkey = 0;
  std::uint64_t address = 0;
};
template <class T>
bool put(int pipe, const T& value) {
  return ::write(pipe, &value, sizeof value) == static_cast<ssize_t>(sizeof value);
}
template <class T>
T get(int pipe) {
  T value{};
  if (::read(pipe, &value, sizeof value) != static_cast<ssize_t>(sizeof value)) ::_exit(9);
  return value;
}
void join(Side& side, std::uint32_t peer_qpn) {
  ibv_qp peer{};
  peer.context = side.context.get();
  peer.qp_num = peer_qpn;
  if (to_init(side.qp.get()) != 0 || to_rtr(side.qp.get(), &peer) != 0 || to_rts(side.qp.get()) != 0) ::_exit(8);
}

[[noreturn]] void serve(int out, int in) {
  {
    Side side = Side::make();
    void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memset(memory, 1, kBytes);
    Owned<ibv_mr> mr(ibv_reg_mr(side.pd.get(), memory, kBytes, kEverything));
    if (!put(out, PeerInfo{side.qp->qp_num, mr->rkey, reinterpret_cast<std::uintptr_t>(memory)})) ::_exit(7);
    join(side, get<PeerInfo>(in).qpn);
    if (!put(out, 'r')) ::_exit(7);
    (void)get<char>(in);  // the client has begun
    ::munmap(memory, kBytes);
    (void)get<char>(in);  // and has seen it
  }
  ::_exit(testing::Test::HasFailure() ? 6 : 0);
}

class FreedFirst : public testing::TestWithParam<ibv_wr_opcode> {};

TEST_P(FreedFirst, TheServerLivesAndTheClientGetsAnError) {
  std::array<int, 2> up{}, down{};
  ASSERT_EQ(::pipe(up.data()), 0);
  ASSERT_EQ(::pipe(down.data()), 0);
  const pid_t server = ::fork();
  ASSERT_GE(server, 0);
  if (server == 0) serve(up[1], down[0]);
  Side side = Side::make(kBytes);
  const auto peer_info = get<PeerInfo>(up[0]);
  ASSERT_TRUE(put(down[1], PeerInfo{side.qp->qp_num}));
  (void)get<char>(up[0]);
  join(side, peer_info.qpn);
  ibv_sge sge = side.sge(0, 200'000);
  ibv_send_wr request = send_request(sge);
  request.opcode = GetParam();
  request.wr.rdma = {.remote_addr = peer_info.address, .rkey = peer_info.rkey};
  ibv_wc_status status = IBV_WC_SUCCESS;
  for (int done = 0; status == IBV_WC_SUCCESS; ++done) {
    if (done == 3) {
      ASSERT_TRUE(put(down[1], 'b'));
    }
    ASSERT_EQ(post_send(side, request), 0);
    status = wait_completion(side.cq.get()).status;
  }
  EXPECT_TRUE(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR) << ibv_wc_status_str(status);
  ASSERT_TRUE(put(down[1], 'e'));
  int ended = 0;
  ASSERT_EQ(::waitpid(server, &ended, 0), server);
  EXPECT_TRUE(WIFEXITED(ended)) << "signal " << WTERMSIG(ended);
  EXPECT_EQ(WEXITSTATUS(ended), 0);
  for (const int each : {up[0], up[1], down[0], down[1]}) ::close(each);
}

INSTANTIATE_TEST_SUITE_P(, FreedFirst, testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ),
                         [](const auto& info) { return info.param == IBV_WR_RDMA_READ ? "Read" : "Write"; });

}  // namespace
}  // namespace brdma::test
