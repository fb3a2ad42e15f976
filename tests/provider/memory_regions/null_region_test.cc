// Null regions: what is read through them is zero, and what is written through them is nowhere.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr std::size_t kBytes = 1 << 20;
constexpr std::uint64_t kAnywhere = 0xDEAD'BEEF'0000'1234;

class NullRegion : public testing::TestWithParam<std::uint32_t> {
 protected:
  NullRegion() : mine(ibv_alloc_null_mr(a.pd.get())), theirs(ibv_alloc_null_mr(b.pd.get())) {
    connect(a, b);
    std::ranges::fill(a.memory, std::uint8_t{0x5A});
    std::ranges::fill(b.memory, std::uint8_t{0xA5});
  }
  ibv_sge nothing(const Owned<ibv_mr>& mr) const { return {.addr = kAnywhere, .length = bytes, .lkey = mr->lkey}; }
  ibv_wc_status run(ibv_send_wr request) {
    EXPECT_EQ(post_send(a, request), 0);
    return wait_completion(a.cq.get()).status;
  }
  void post_to_nothing() {
    ibv_sge into = nothing(theirs);
    ibv_recv_wr receive{.wr_id = 7, .next = nullptr, .sg_list = &into, .num_sge = 1}, *bad = nullptr;
    ASSERT_EQ(ibv_post_recv(b.qp.get(), &receive, &bad), 0);
  }
  static bool all(const Side& side, std::uint8_t value, std::size_t from, std::size_t count) {
    const auto begin = side.memory.begin() + static_cast<std::ptrdiff_t>(from);
    return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(count), [=](std::uint8_t at) { return at == value; });
  }

  const std::uint32_t bytes = GetParam();
  Side a = Side::make(kBytes), b = Side::make(kBytes);
  Owned<ibv_mr> mine, theirs;
};

TEST_P(NullRegion, WritesZeros) {
  ibv_sge sge = nothing(mine);
  EXPECT_EQ(run(write_request(sge, b)), IBV_WC_SUCCESS);
  EXPECT_TRUE(all(b, 0, 0, bytes));
  EXPECT_TRUE(all(b, 0xA5, bytes, kBytes - bytes));
}

TEST_P(NullRegion, SendsZerosAndReceivesNothing) {
  ASSERT_EQ(post_receive(b, 1, 0, bytes), 0);
  post_to_nothing();
  post_to_nothing();
  ibv_sge zeros = nothing(mine), data = a.sge(0, bytes);
  EXPECT_EQ(run(send_request(zeros)), IBV_WC_SUCCESS);
  EXPECT_EQ(run(send_request(data)), IBV_WC_SUCCESS);
  EXPECT_EQ(run(send_request(zeros)), IBV_WC_SUCCESS);
  for (int i = 0; i < 3; ++i) {
    const ibv_wc received = wait_completion(b.cq.get());
    EXPECT_EQ(received.status, IBV_WC_SUCCESS);
    EXPECT_EQ(received.byte_len, bytes);
  }
  EXPECT_TRUE(all(b, 0, 0, bytes));
  EXPECT_TRUE(all(b, 0xA5, bytes, kBytes - bytes));
}

// What was written is not what is read afterwards.
TEST_P(NullRegion, ReadsIntoNothing) {
  ibv_sge sge = nothing(mine);
  ibv_send_wr request = write_request(sge, b);
  request.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(run(request), IBV_WC_SUCCESS);
  EXPECT_TRUE(all(b, 0xA5, 0, kBytes));
  EXPECT_EQ(run(write_request(sge, b)), IBV_WC_SUCCESS);
  EXPECT_TRUE(all(b, 0, 0, bytes));
}

// Between pieces of ordinary memory it fills, or skips, its part of the message.
TEST_P(NullRegion, IsAPieceOfAMessage) {
  std::array<ibv_sge, 3> pieces{a.sge(0, 100), nothing(mine), a.sge(200, 100)};
  ibv_send_wr request = write_request(pieces[0], b);
  request.num_sge = 3;
  EXPECT_EQ(run(request), IBV_WC_SUCCESS);
  EXPECT_TRUE(all(b, 0x5A, 0, 100));
  EXPECT_TRUE(all(b, 0, 100, bytes));
  EXPECT_TRUE(all(b, 0x5A, 100 + bytes, 100));
  std::ranges::fill(b.memory, std::uint8_t{0x77});
  request.opcode = IBV_WR_RDMA_READ;
  EXPECT_EQ(run(request), IBV_WC_SUCCESS);
  EXPECT_TRUE(all(a, 0x77, 0, 100));
  EXPECT_TRUE(all(a, 0x5A, 100, 100));
  EXPECT_TRUE(all(a, 0x77, 200, 100));
}

INSTANTIATE_TEST_SUITE_P(Bytes, NullRegion, testing::Values(64, 1024, 5000, 700'000));

class NullRegionOnce : public NullRegion {};

TEST_P(NullRegionOnce, TakesTheResultOfAnAtomic) {
  ibv_sge sge = nothing(mine);
  sge.length = 8;
  ibv_send_wr request = write_request(sge, b);
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {.remote_addr = reinterpret_cast<std::uintptr_t>(b.memory.data()),
                       .compare_add = 1,
                       .swap = 0,
                       .rkey = b.mr->rkey};
  EXPECT_EQ(run(request), IBV_WC_SUCCESS);
  EXPECT_EQ(b.memory[0], 0xA6);
}

TEST_P(NullRegionOnce, IsNotForPeersAndNotForOtherDomains) {
  ibv_sge sge = a.sge(0, 8);
  ibv_send_wr request = write_request(sge, b);
  request.wr.rdma.rkey = theirs->lkey;
  EXPECT_EQ(theirs->rkey, 0u);
  EXPECT_EQ(run(request), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(NullRegionOnce, BelongsToItsDomain) {
  ibv_sge sge = nothing(theirs);
  EXPECT_EQ(run(write_request(sge, b)), IBV_WC_LOC_PROT_ERR);
}

TEST_P(NullRegionOnce, StaysWhatItIs) {
  EXPECT_NE(ibv_rereg_mr(mine.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, int{IBV_ACCESS_LOCAL_WRITE}), 0);
  EXPECT_EQ(ibv_dealloc_pd(a.pd.get()), EBUSY);
}

INSTANTIATE_TEST_SUITE_P(Bytes, NullRegionOnce, testing::Values(64));

}  // namespace
}  // namespace brdma::test
