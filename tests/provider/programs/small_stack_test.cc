// Posting and polling from threads with a stack of 16 KiB: as in Argobots, and about as in fibers and coroutines. That
// is less than an array of requests and a page for data would take. Each in a process of its own, which dies if it does
// not fit.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

// For the program's own frames, and for processors that save more registers when a function is called the first time.
constexpr std::size_t kSpareBytes = 6 * 1024;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
constexpr bool kFramesAreUsual = false;
#else
constexpr bool kFramesAreUsual = true;
#endif
constexpr std::size_t kStackBytes = 16 * 1024, kGuardBytes = 64 * 1024, kBytes = 65'536;

// The thread's objects. No function of the fixture: those have a stack of their own.
struct Work {
  Side a, b;
  std::array<ibv_send_wr, 100> sends{};
  std::array<ibv_recv_wr, 100> receives{};
  std::array<ibv_sge, 100> sges{};
  bool good = false;
};

int wait(ibv_cq* cq, ibv_wc& completion) {
  timespec start{}, now{};
  ::clock_gettime(CLOCK_MONOTONIC, &start);
  do {
    if (const int got = ibv_poll_cq(cq, 1, &completion); got != 0)
      return got == 1 && completion.status == IBV_WC_SUCCESS;
    ::clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec - start.tv_sec < 10);
  return 0;
}

// All but the last of `count` are unsignaled.
bool post(Work& work, std::size_t count, ibv_wr_opcode opcode, std::uint32_t bytes, unsigned flags) {
  for (std::size_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    work.sges[i] = work.a.sge(0, bytes);
    ibv_send_wr& request = work.sends[i];
    request = {};
    request.next = last ? nullptr : &work.sends[i + 1];
    request.sg_list = &work.sges[i];
    request.num_sge = 1;
    request.opcode = opcode;
    request.send_flags = flags | (last ? static_cast<unsigned>(IBV_SEND_SIGNALED) : 0u);
    request.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(work.b.memory.data()), .rkey = work.b.mr->rkey};
  }
  ibv_send_wr* bad = nullptr;
  ibv_wc completion;
  return ibv_post_send(work.a.qp.get(), work.sends.data(), &bad) == 0 && wait(work.a.cq.get(), completion) == 1;
}

bool receive(Work& work, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    work.receives[i] = {};
    work.receives[i].next = i + 1 == count ? nullptr : &work.receives[i + 1];
  }
  ibv_recv_wr* bad = nullptr;
  if (ibv_post_recv(work.b.qp.get(), work.receives.data(), &bad) != 0) return false;
  if (!post(work, count, IBV_WR_SEND, 0, 0)) return false;
  ibv_wc completion;
  for (std::size_t i = 0; i < count; ++i) {
    if (wait(work.b.cq.get(), completion) != 1) return false;
  }
  return true;
}

bool post_extended(Work& work) {
  ibv_qp_ex* const qp = ibv_qp_to_qp_ex(work.a.qp.get());
  ibv_wr_start(qp);
  qp->wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(qp, work.b.mr->rkey, reinterpret_cast<std::uintptr_t>(work.b.memory.data()));
  ibv_wr_set_sge(qp, work.a.mr->lkey, reinterpret_cast<std::uintptr_t>(work.a.memory.data()), kBytes);
  ibv_wc completion;
  return ibv_wr_complete(qp) == 0 && wait(work.a.cq.get(), completion) == 1;
}

struct Case {
  const char* name;
  bool (*act)(Work&);
  bool extended = false;
};

const Case kCases[] = {
    {"LargeWrites", [](Work& work) { return post(work, 1, IBV_WR_RDMA_WRITE, kBytes, 0); }},
    {"LargeReads", [](Work& work) { return post(work, 1, IBV_WR_RDMA_READ, kBytes, 0); }},
    {"AListOfWrites", [](Work& work) { return post(work, 60, IBV_WR_RDMA_WRITE, 64, 0); }},
    {"AListOfReads", [](Work& work) { return post(work, 60, IBV_WR_RDMA_READ, 64, 0); }},
    {"AnInlineList", [](Work& work) { return post(work, 60, IBV_WR_RDMA_WRITE, 64, IBV_SEND_INLINE); }},
    {"SendsAndReceives", [](Work& work) { return receive(work, 60); }},
    {"ExtendedPosts", post_extended, true},
};

void make_extended(Work& work) {
  ibv_qp_init_attr_ex wanted{};
  wanted.send_cq = wanted.recv_cq = work.a.cq.get();
  wanted.cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 4, .max_inline_data = 64};
  wanted.qp_type = IBV_QPT_RC;
  wanted.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  wanted.pd = work.a.pd.get();
  wanted.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE;
  work.a.qp.reset(ibv_create_qp_ex(work.a.context.get(), &wanted));
}

class SmallStack : public testing::TestWithParam<Case> {};

TEST_P(SmallStack, IsEnough) {
  if (!kFramesAreUsual) GTEST_SKIP() << "this build's frames are larger";
  std::fflush(nullptr);
  const pid_t program = ::fork();
  if (program == 0) {
    Work work{.a = Side::make(2 * kBytes), .b = Side::make(2 * kBytes)};
    if (GetParam().extended) make_extended(work);
    connect(work.a, work.b);
    auto* const memory = static_cast<std::byte*>(::mmap(nullptr, kGuardBytes + kStackBytes, PROT_READ | PROT_WRITE,
                                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0));
    ::mprotect(memory, kGuardBytes, PROT_NONE);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstack(&attributes, memory + kGuardBytes, kStackBytes) != 0) ::_exit(77);
    const auto body = [](void* argument) -> void* {
      Work& mine = *static_cast<Work*>(argument);
      mine.good = true;
      for (int i = 0; i < 20 && mine.good; ++i) mine.good = GetParam().act(mine);
      return nullptr;
    };
    pthread_t thread{};
    if (pthread_create(&thread, &attributes, body, &work) != 0) ::_exit(77);
    pthread_join(thread, nullptr);
    std::size_t untouched = 0;
    while (untouched < kStackBytes && memory[kGuardBytes + untouched] == std::byte{}) ++untouched;
    std::printf("of 16384 bytes %zu are left\n", untouched);
    std::fflush(nullptr);
    ::_exit(work.good && untouched >= kSpareBytes && !testing::Test::HasFailure() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(program, &status, 0), program);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system gives no thread so small a stack";
  EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Calls, SmallStack, testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace brdma::test
