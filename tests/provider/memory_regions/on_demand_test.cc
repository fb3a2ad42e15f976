// On-demand paging: regions of all addresses, prefetch, memory that comes back as zeros and memory that is missing.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr int kOnDemand = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                          IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND;
constexpr std::size_t kBytes = 1 << 20;

class Pages {
 public:
  Pages() : at_(::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    EXPECT_NE(at_, MAP_FAILED);
    EXPECT_EQ(::madvise(at_, kBytes, MADV_NOHUGEPAGE), 0);
  }
  ~Pages() { ::munmap(at_, kBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  [[nodiscard]] std::uint8_t* at() const { return static_cast<std::uint8_t*>(at_); }
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(at_) + offset;
  }
  void drop() const { ASSERT_EQ(::madvise(at_, kBytes, MADV_DONTNEED), 0); }
  void take() const { ASSERT_EQ(::mmap(at_, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at_); }
  [[nodiscard]] std::size_t resident() const {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::vector<unsigned char> which(kBytes / page);
    EXPECT_EQ(::mincore(at_, kBytes, which.data()), 0);
    return static_cast<std::size_t>(std::ranges::count_if(which, [](unsigned char each) { return (each & 1) != 0; }));
  }

 private:
  void* at_;
};

Owned<ibv_mr> everything(const Side& side, int access = kOnDemand) {
  errno = 0;
  return Owned<ibv_mr>(ibv_reg_mr(side.pd.get(), nullptr, SIZE_MAX, access));
}

// All addresses of both programs.
class Implicit : public testing::TestWithParam<std::uint32_t> {
 protected:
  Implicit() : mine(everything(a)), theirs(everything(b)) {
    connect(a, b);
    EXPECT_NE(mine, nullptr);
    EXPECT_NE(theirs, nullptr);
  }
  ibv_wc_status run(ibv_wr_opcode opcode, std::uint64_t own, std::uint64_t remote) {
    ibv_sge sge{.addr = own, .length = bytes, .lkey = mine->lkey};
    ibv_send_wr request = write_request(sge, b);
    request.opcode = opcode;
    request.wr.rdma = {.remote_addr = remote, .rkey = theirs->rkey};
    EXPECT_EQ(post_send(a, request), 0);
    return wait_completion(a.cq.get()).status;
  }
  const std::uint32_t bytes = GetParam();
  Side a = Side::make(), b = Side::make();
  Owned<ibv_mr> mine, theirs;
  Pages from, to;
};

TEST_P(Implicit, WritesAndReadsAnything) {
  EXPECT_EQ(mine->length, SIZE_MAX);
  std::memset(from.at(), 0x5A, kBytes);
  ASSERT_EQ(run(IBV_WR_RDMA_WRITE, from.address(), to.address(100)), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(from.at(), to.at() + 100, bytes), 0);
  std::memset(to.at(), 0x77, kBytes);
  ASSERT_EQ(run(IBV_WR_RDMA_READ, from.address(), to.address()), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(from.at(), to.at(), bytes), 0);
  const Pages later;  // not there when the region was made
  ASSERT_EQ(run(IBV_WR_RDMA_WRITE, from.address(), later.address()), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(from.at(), later.at(), bytes), 0);
}

TEST_P(Implicit, DroppedPagesComeBackAsZeros) {
  const std::vector<std::uint8_t> zeros(kBytes);
  for (int round = 0; round < 2; ++round) {
    std::memset(from.at(), 0x5A, kBytes);
    from.drop();
    ASSERT_EQ(run(IBV_WR_RDMA_WRITE, from.address(), to.address()), IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(to.at(), zeros.data(), bytes), 0);
    std::memset(to.at(), 0x77, kBytes);
    to.drop();
    ASSERT_EQ(run(IBV_WR_RDMA_READ, from.address(), to.address()), IBV_WC_SUCCESS);
    EXPECT_EQ(std::memcmp(from.at(), zeros.data(), bytes), 0);
  }
}

TEST_P(Implicit, OwnMemoryThatIsMissingIsAnError) {
  from.take();
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, from.address(), to.address()), IBV_WC_LOC_PROT_ERR);
}

TEST_P(Implicit, TheirMemoryThatIsMissingIsAnError) {
  to.take();
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, from.address(), to.address()), IBV_WC_REM_ACCESS_ERR);
}

// No program can have these: the processor would not even name them in its fault.
TEST_P(Implicit, AddressesThatCannotBeAreAnError) {
  for (const std::uint64_t wild :
       {std::uint64_t{0}, std::uint64_t{1} << 47, std::uint64_t{1} << 63, ~std::uint64_t{0} - bytes}) {
    for (const bool own : {true, false}) {
      const ibv_wc_status status = run(IBV_WR_RDMA_WRITE, own ? wild : from.address(), own ? to.address() : wild);
      EXPECT_EQ(status, own ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR) << wild;
      for (Side* const side : {&a, &b}) {
        ibv_qp_init_attr wanted = usual_queue_pair(side->cq.get());
        side->qp.reset(ibv_create_qp(side->pd.get(), &wanted));
      }
      connect(a, b);
    }
  }
}

TEST_P(Implicit, ReadsOfWildAddressesAreAnError) {
  const ibv_wc_status status = run(IBV_WR_RDMA_READ, from.address(), std::uint64_t{1} << 62);
  EXPECT_TRUE(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR) << status;
}

INSTANTIATE_TEST_SUITE_P(Bytes, Implicit, testing::Values(64, 5000, 700'000));

TEST(ImplicitRegion, IsOfAllAddressesAndOnDemand) {
  Side side = Side::make();
  EXPECT_EQ(everything(side, IBV_ACCESS_LOCAL_WRITE), nullptr);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(everything(side, kOnDemand | IBV_ACCESS_HUGETLB), nullptr);
  EXPECT_EQ(errno, EINVAL);
  errno = 0;
  EXPECT_EQ(ibv_reg_mr_iova(side.pd.get(), nullptr, SIZE_MAX, 4096, kOnDemand), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

class Advice : public testing::Test {
 protected:
  int advise(ibv_advise_mr_advice advice, ibv_sge sge, unsigned flags = IBV_ADVISE_MR_FLAG_FLUSH) {
    return ibv_advise_mr(side.pd.get(), advice, flags, &sge, 1);
  }
  ibv_sge sge(const Owned<ibv_mr>& region, std::size_t offset = 0, std::uint32_t bytes = kBytes) const {
    return {.addr = pages.address(offset), .length = bytes, .lkey = region->lkey};
  }
  Side side = Side::make();
  Pages pages;
  Owned<ibv_mr> mr{ibv_reg_mr(side.pd.get(), pages.at(), kBytes, kOnDemand)};
};

TEST_F(Advice, MakesPagesPresent) {
  EXPECT_EQ(pages.resident(), 0u) << "registration makes none";
  ASSERT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, sge(mr)), 0);
  EXPECT_EQ(pages.resident(), 0u);
  ASSERT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, sge(mr, 4096, 8192), 0), 0);
  EXPECT_EQ(pages.resident(), 2u);
  ASSERT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, sge(mr)), 0);
  EXPECT_EQ(pages.resident(), kBytes / static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)));
}

TEST_F(Advice, ChangesNoContents) {
  std::memset(pages.at(), 0x5A, kBytes);
  for (const auto advice : {IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE})
    ASSERT_EQ(advise(advice, sge(mr)), 0);
  EXPECT_TRUE(std::all_of(pages.at(), pages.at() + kBytes, [](std::uint8_t at) { return at == 0x5A; }));
}

TEST_F(Advice, IsRefusedWithItsReason) {
  constexpr auto kRead = IBV_ADVISE_MR_ADVICE_PREFETCH, kWrite = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  EXPECT_EQ(advise(kRead, sge(mr, 1)), EFAULT) << "beyond the region";
  ibv_sge unknown = sge(mr);
  unknown.lkey ^= 0x1000;
  EXPECT_EQ(advise(kRead, unknown), ENOENT);
  const Owned<ibv_pd> other(ibv_alloc_pd(side.context.get()));
  Owned<ibv_mr> foreign(ibv_reg_mr(other.get(), pages.at(), kBytes, kOnDemand));
  EXPECT_EQ(advise(kRead, sge(foreign)), EPERM);
  const Owned<ibv_mr> fixed(ibv_reg_mr(side.pd.get(), pages.at(), kBytes, IBV_ACCESS_ON_DEMAND));
  EXPECT_EQ(advise(kWrite, sge(fixed)), EPERM);
  EXPECT_EQ(advise(kRead, sge(fixed)), 0);
  EXPECT_EQ(advise(kRead, sge(mr), 1u << 20), EINVAL);
  EXPECT_EQ(ibv_advise_mr(side.pd.get(), kRead, 0, nullptr, 0), EINVAL);
  EXPECT_EQ(advise(static_cast<ibv_advise_mr_advice>(3), sge(mr)), EOPNOTSUPP);
  pages.take();
  EXPECT_EQ(advise(kRead, sge(mr)), EFAULT) << "missing";
}

TEST_F(Advice, IsTakenForAnImplicitRegion) {
  const Owned<ibv_mr> all = everything(side);
  ASSERT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, sge(all)), 0);
  EXPECT_GT(pages.resident(), 0u);
  pages.take();
  EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, sge(all)), EFAULT);
}

}  // namespace
}  // namespace brdma::test
