// Memory that is unmapped or not accessible is refused at registration: EFAULT, as by the kernel.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::size_t kBytes = 1 << 20;
constexpr int kRemoteRead = IBV_ACCESS_REMOTE_READ, kLocalWrite = IBV_ACCESS_LOCAL_WRITE;
constexpr int kWriting[] = {kLocalWrite, kLocalWrite | IBV_ACCESS_REMOTE_WRITE, kLocalWrite | IBV_ACCESS_REMOTE_ATOMIC,
                            IBV_ACCESS_MW_BIND, kLocalWrite | IBV_ACCESS_ON_DEMAND};

class Registration : public testing::Test {
 protected:
  Registration() : context(open_first_device()), pd(ibv_alloc_pd(context.get())) {}
  ~Registration() override {
    if (memory != nullptr) ::munmap(memory, kBytes);
  }
  void map(int protection, std::size_t bytes = kBytes) {
    memory = static_cast<char*>(::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
  }
  Owned<ibv_mr> registered(int access) const {
    errno = 0;
    return Owned<ibv_mr>(ibv_reg_mr(pd.get(), memory, kBytes, access));
  }
  void expect_refused(int access) const {
    EXPECT_EQ(registered(access), nullptr) << access;
    EXPECT_EQ(errno, EFAULT) << access;
  }
  Owned<ibv_context> context;
  Owned<ibv_pd> pd;
  char* memory = nullptr;
};

TEST_F(Registration, OfWhatMayNotBeWrittenForWriting) {
  map(PROT_READ);
  for (const int access : kWriting) expect_refused(access);
  EXPECT_NE(registered(0), nullptr);
  EXPECT_NE(registered(kRemoteRead), nullptr);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr_iova2(pd.get(), memory, kBytes, 1 << 20, kLocalWrite), nullptr);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(Registration, OfWhatMayNotBeAccessed) {
  map(PROT_NONE);
  for (const int access : kWriting) expect_refused(access);
  expect_refused(0);
  expect_refused(kRemoteRead | IBV_ACCESS_ON_DEMAND);
}

TEST_F(Registration, OfAPageThatIsNotThere) {
  map(PROT_READ | PROT_WRITE);
  ASSERT_EQ(::munmap(memory + kBytes / 2, 4096), 0);
  for (const int access : kWriting) expect_refused(access);
  expect_refused(0);
}

TEST_F(Registration, AgainUnderTheSameKeys) {
  map(PROT_READ);
  Owned<ibv_mr> mr = registered(kRemoteRead);
  ASSERT_NE(mr, nullptr);
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kLocalWrite), 0);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  ASSERT_EQ(::mprotect(memory, kBytes, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kLocalWrite), 0);
  ASSERT_EQ(::mprotect(memory, kBytes / 2, PROT_READ), 0);
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory, kBytes / 2, 0), 0);
  EXPECT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory + kBytes / 2, kBytes / 2, 0), 0);
}

// A region as large as the address space allows costs nothing until it is used.
TEST_F(Registration, OfFarMoreThanThereIs) {
  constexpr std::size_t kHuge = std::size_t{1} << 40;
  void* const huge = ::mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(huge, MAP_FAILED);
  Owned<ibv_mr> mr(ibv_reg_mr(pd.get(), huge, kHuge, kLocalWrite));
  EXPECT_NE(mr, nullptr) << errno;
  mr.reset();
  ::munmap(huge, kHuge);
}

TEST_F(Registration, FromAThreadWithASmallStack) {
  map(PROT_READ | PROT_WRITE);
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN), 0);
  struct Job {
    ibv_pd* pd;
    char* memory;
  } job{pd.get(), memory};
  const auto work = [](void* given) -> void* {
    const Job& job = *static_cast<Job*>(given);
    ibv_mr* const mr = ibv_reg_mr(job.pd, job.memory, kBytes, kLocalWrite);
    return mr != nullptr && ibv_dereg_mr(mr) == 0 ? given : nullptr;
  };
  pthread_t thread{};
  ASSERT_EQ(pthread_create(&thread, &attributes, work, &job), 0);
  void* good = nullptr;
  ASSERT_EQ(pthread_join(thread, &good), 0);
  EXPECT_EQ(good, &job);
  pthread_attr_destroy(&attributes);
}

}  // namespace
}  // namespace brdma::test
