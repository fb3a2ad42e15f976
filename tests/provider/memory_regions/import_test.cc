// Objects imported by their handles: what either structure can do, and what is left when one has destroyed the object.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr int kEverything =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
std::vector<void*> kept;  // structures of nothing, which nobody can give back
constexpr std::uint32_t kNobodys = 0x7FFF'FFFF;

class Imported : public testing::Test {
 protected:
  Imported() {
    connect(a, b);
    std::ranges::fill(a.memory, std::uint8_t{0x5A});
  }
  ibv_wc_status write_from(std::uint32_t lkey) {
    ibv_sge sge = a.sge(0, 64);
    sge.lkey = lkey;
    EXPECT_EQ(post_send(a, write_request(sge, b)), 0);
    return wait_completion(a.cq.get()).status;
  }
  Side a = Side::make(), b = Side::make();
};

TEST_F(Imported, DomainMakesRegionsForTheOther) {
  ibv_pd* const pd = ibv_import_pd(a.context.get(), a.pd->handle);
  ASSERT_NE(pd, nullptr);
  EXPECT_EQ(pd->handle, a.pd->handle);
  Owned<ibv_mr> mr(ibv_reg_mr(pd, a.memory.data(), a.memory.size(), kEverything));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(write_from(mr->lkey), IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_dealloc_pd(pd), EBUSY);
  mr.reset();
  ibv_unimport_pd(pd);
  EXPECT_EQ(write_from(a.mr->lkey), IBV_WC_SUCCESS) << "unimporting destroys nothing";
}

TEST_F(Imported, DomainIsDestroyedByEither) {
  for (const bool by_import : {true, false}) {
    ibv_pd* const first = ibv_alloc_pd(a.context.get());
    ibv_pd* const second = ibv_import_pd(a.context.get(), first->handle);
    ASSERT_NE(second, nullptr);
    const std::uint32_t handle = first->handle;
    EXPECT_EQ(ibv_dealloc_pd(by_import ? second : first), 0);
    if (by_import) {
      EXPECT_EQ(ibv_dealloc_pd(first), ENOENT);
      kept.push_back(first);
    } else {
      EXPECT_EQ(ibv_dealloc_pd(second), ENOENT);
      ibv_unimport_pd(second);
    }
    EXPECT_EQ(ibv_import_pd(a.context.get(), handle), nullptr);
    EXPECT_EQ(errno, ENOENT);
  }
}

TEST_F(Imported, RegionHasTheSameKeysAndNoAddress) {
  ibv_mr* const mr = ibv_import_mr(a.pd.get(), a.mr->handle);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->lkey, a.mr->lkey);
  EXPECT_EQ(mr->rkey, a.mr->rkey);
  EXPECT_EQ(mr->length, a.mr->length);
  EXPECT_EQ(mr->addr, nullptr);
  EXPECT_EQ(write_from(mr->lkey), IBV_WC_SUCCESS);
  EXPECT_NE(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kEverything), 0);
  ibv_unimport_mr(mr);
  EXPECT_EQ(write_from(a.mr->lkey), IBV_WC_SUCCESS);
}

TEST_F(Imported, RegionIsDestroyedByEither) {
  ibv_mr* const first = ibv_reg_mr(a.pd.get(), a.memory.data(), a.memory.size(), kEverything);
  ibv_mr* const second = ibv_import_mr(a.pd.get(), first->handle);
  ASSERT_NE(second, nullptr);
  const std::uint32_t lkey = first->lkey;
  EXPECT_EQ(ibv_dereg_mr(second), 0);
  EXPECT_EQ(ibv_dereg_mr(first), ENOENT);
  kept.push_back(first);
  EXPECT_EQ(write_from(lkey), IBV_WC_LOC_PROT_ERR);
}

TEST_F(Imported, DeviceMemoryIsTheSameMemory) {
  ibv_alloc_dm_attr wanted{.length = 4096, .log_align_req = 0, .comp_mask = 0};
  ibv_dm* const first = ibv_alloc_dm(a.context.get(), &wanted);
  ASSERT_NE(first, nullptr);
  ibv_dm* const second = ibv_import_dm(a.context.get(), first->handle);
  ASSERT_NE(second, nullptr);
  const std::array<std::uint32_t, 2> out{7, 8};
  std::array<std::uint32_t, 2> in{};
  ASSERT_EQ(ibv_memcpy_to_dm(first, 64, out.data(), 8), 0);
  ASSERT_EQ(ibv_memcpy_from_dm(in.data(), second, 64, 8), 0);
  EXPECT_EQ(in, out);
  Owned<ibv_mr> mr(ibv_reg_dm_mr(a.pd.get(), second, 0, 4096, kEverything | IBV_ACCESS_ZERO_BASED));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(ibv_free_dm(first), EBUSY);
  mr.reset();
  ibv_unimport_dm(second);
  EXPECT_EQ(ibv_free_dm(first), 0);
}

TEST_F(Imported, NothingByAHandleThatIsNobodys) {
  errno = 0;
  EXPECT_EQ(ibv_import_pd(a.context.get(), kNobodys), nullptr);
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_EQ(ibv_import_mr(a.pd.get(), kNobodys), nullptr);
  EXPECT_EQ(errno, ENOENT);
  errno = 0;
  EXPECT_EQ(ibv_import_dm(a.context.get(), kNobodys), nullptr);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(ibv_import_pd(b.context.get(), a.pd->handle), nullptr) << "of another context";
}

}  // namespace
}  // namespace brdma::test
