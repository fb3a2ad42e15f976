// Device memory: copies, regions of it, and what peers do with them. Buffers that a descriptor names.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

constexpr int kEverything =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr unsigned kZeroBased = kEverything | IBV_ACCESS_ZERO_BASED;

ibv_dm* allocate(const Owned<ibv_context>& context, std::size_t bytes, std::uint32_t log_align = 0,
                 std::uint32_t mask = 0) {
  ibv_alloc_dm_attr wanted{.length = bytes, .log_align_req = log_align, .comp_mask = mask};
  errno = 0;
  return ibv_alloc_dm(context.get(), &wanted);
}

// b's device memory is accessed by a.
class DeviceMemory : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1 << 16;
  DeviceMemory() : dm(allocate(b.context, kBytes)) {
    connect(a, b);
    std::ranges::fill(a.memory, std::uint8_t{0x5A});
  }
  ~DeviceMemory() override {
    mr.reset();
    EXPECT_EQ(ibv_free_dm(dm), 0);
  }
  void register_all() {
    mr.reset(ibv_reg_dm_mr(b.pd.get(), dm, 0, kBytes, kZeroBased));
    ASSERT_NE(mr, nullptr);
  }
  ibv_wc_status run(ibv_wr_opcode opcode, std::uint64_t offset, std::uint32_t bytes) {
    ibv_sge sge = a.sge(0, bytes);
    ibv_send_wr request = write_request(sge, b);
    request.opcode = opcode;
    request.wr.rdma = {.remote_addr = offset, .rkey = mr->rkey};
    EXPECT_EQ(post_send(a, request), 0);
    return wait_completion(a.cq.get()).status;
  }
  std::array<std::uint8_t, 64> copied(std::uint64_t offset) const {
    std::array<std::uint8_t, 64> out{};
    EXPECT_EQ(ibv_memcpy_from_dm(out.data(), dm, offset, out.size()), 0);
    return out;
  }

  Side a = Side::make(), b = Side::make();
  ibv_dm* const dm;
  Owned<ibv_mr> mr;
};

TEST_F(DeviceMemory, IsCopiedInAndOut) {
  std::array<std::uint8_t, 64> data{};
  EXPECT_EQ(copied(0), data) << "it is zero at first";
  data.fill(0x33);
  ASSERT_EQ(ibv_memcpy_to_dm(dm, kBytes - 64, data.data(), 64), 0);
  EXPECT_EQ(copied(kBytes - 64), data);
  EXPECT_NE(copied(kBytes - 128), data);
}

TEST_F(DeviceMemory, CopiesAreOfWholeUnitsAndInside) {
  std::array<std::uint8_t, 64> data{};
  const std::array<std::pair<std::uint64_t, std::size_t>, 6> wrong{
      {{1, 4}, {2, 4}, {0, 3}, {kBytes, 4}, {kBytes - 4, 8}, {~std::uint64_t{3}, 8}}};
  for (const auto& [offset, length] : wrong) {
    EXPECT_EQ(ibv_memcpy_to_dm(dm, offset, data.data(), length), EINVAL) << offset << ' ' << length;
    EXPECT_EQ(ibv_memcpy_from_dm(data.data(), dm, offset, length), EINVAL) << offset << ' ' << length;
  }
  EXPECT_EQ(ibv_memcpy_to_dm(dm, 0, nullptr, 64), EFAULT);
}

TEST_F(DeviceMemory, PeersWriteAndRead) {
  register_all();
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, 4096, 40'000), IBV_WC_SUCCESS);
  EXPECT_EQ(copied(4096)[0], 0x5A);
  EXPECT_EQ(copied(44'096 - 64)[63], 0x5A);
  EXPECT_EQ(copied(44'096)[0], 0);
  std::array<std::uint8_t, 64> data{};
  data.fill(0x77);
  ASSERT_EQ(ibv_memcpy_to_dm(dm, 128, data.data(), 64), 0);
  EXPECT_EQ(run(IBV_WR_RDMA_READ, 128, 64), IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(a.memory.data(), data.data(), 64), 0);
}

TEST_F(DeviceMemory, PeersAddAndSwap) {
  register_all();
  ibv_sge sge = a.sge(0, 8);
  ibv_send_wr request = write_request(sge, b);
  request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
  request.wr.atomic = {.remote_addr = 256, .compare_add = 5, .swap = 0, .rkey = mr->rkey};
  for (std::uint64_t before : {0u, 5u}) {
    ASSERT_EQ(post_send(a, request), 0);
    ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
    std::uint64_t found = 0;
    std::memcpy(&found, a.memory.data(), 8);
    EXPECT_EQ(found, before);
  }
  request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  request.wr.atomic = {.remote_addr = 256, .compare_add = 10, .swap = 99, .rkey = mr->rkey};
  ASSERT_EQ(post_send(a, request), 0);
  ASSERT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(copied(256)[0], 99);
}

TEST_F(DeviceMemory, ItsOwnerSendsAndReceivesWithIt) {
  register_all();
  ibv_sge from{.addr = 0, .length = 64, .lkey = mr->lkey};
  std::array<std::uint8_t, 64> data{};
  data.fill(0x11);
  ASSERT_EQ(ibv_memcpy_to_dm(dm, 0, data.data(), 64), 0);
  ASSERT_EQ(post_receive(a, 1, 0, 64), 0);
  ASSERT_EQ(post_send(b, send_request(from)), 0);
  EXPECT_EQ(wait_completion(b.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(wait_completion(a.cq.get()).status, IBV_WC_SUCCESS);
  EXPECT_EQ(std::memcmp(a.memory.data(), data.data(), 64), 0);
}

TEST_F(DeviceMemory, BeyondARegionOfItIsBeyond) {
  mr.reset(ibv_reg_dm_mr(b.pd.get(), dm, 4096, 128, kZeroBased));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, 0, 128), IBV_WC_SUCCESS);
  EXPECT_EQ(copied(4096)[0], 0x5A) << "its addresses count from its own begin";
  EXPECT_EQ(run(IBV_WR_RDMA_WRITE, 1, 128), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(DeviceMemory, RegionsThatCannotBe) {
  const auto refused = [this](std::uint64_t offset, std::size_t length, unsigned access) {
    errno = 0;
    return ibv_reg_dm_mr(b.pd.get(), dm, offset, length, access) == nullptr && errno == EINVAL;
  };
  EXPECT_TRUE(refused(0, kBytes, kEverything)) << "not zero based";
  EXPECT_TRUE(refused(0, kBytes + 1, kZeroBased));
  EXPECT_TRUE(refused(kBytes, 1, kZeroBased));
  EXPECT_TRUE(refused(~std::uint64_t{0}, 2, kZeroBased));
  errno = 0;
  EXPECT_EQ(ibv_reg_dm_mr(a.pd.get(), dm, 0, 64, kZeroBased), nullptr) << "of another context";
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(DeviceMemory, StaysWhileARegionIsMadeOfIt) {
  register_all();
  EXPECT_EQ(ibv_free_dm(dm), EBUSY);
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, kEverything), 0);
}

TEST(DeviceMemorySize, HasALimitForAllTogether) {
  const auto context = open_first_device();
  ibv_device_attr_ex attributes{};
  ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &attributes), 0);
  ASSERT_GT(attributes.max_dm_size, 0u);
  for (const auto& [bytes, align, mask] :
       {std::tuple<std::size_t, unsigned, unsigned>{0, 0, 0}, {attributes.max_dm_size + 1, 0, 0}, {64, 40, 0}}) {
    EXPECT_EQ(allocate(context, bytes, align, mask), nullptr);
    EXPECT_EQ(errno, EINVAL);
  }
  EXPECT_EQ(allocate(context, 64, 0, 1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_dm* const all = allocate(context, attributes.max_dm_size);
  ASSERT_NE(all, nullptr);
  EXPECT_EQ(allocate(context, 4), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(ibv_free_dm(all), 0);
  ibv_dm* const again = allocate(context, 4, 12);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(ibv_free_dm(again), 0);
}

TEST(DeviceMemorySize, AClosedContextTakesItAlong) {
  Owned<ibv_context> context = open_first_device();
  ibv_pd* const pd = ibv_alloc_pd(context.get());
  ibv_dm* const dm = allocate(context, 4096);
  ASSERT_NE(ibv_reg_dm_mr(pd, dm, 0, 4096, kZeroBased), nullptr);
  context.reset();
  Side other = Side::make();
  EXPECT_NE(other.qp, nullptr);
}

// A forked child has the device of its parent as long as that one has no queue pairs.
TEST(DeviceMemorySize, IsAllocatedInForkedChildren) {
  const auto context = open_first_device();
  for (int i = 0; i < 3; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ibv_dm* const dm = allocate(context, 4096);
      std::uint32_t word = 7;
      const bool good = dm != nullptr && ibv_memcpy_to_dm(dm, 0, &word, 4) == 0 && ibv_free_dm(dm) == 0;
      ::_exit(good ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

// --- buffers that a descriptor names ---

class Buffer : public testing::Test {
 protected:
  static constexpr std::size_t kBytes = 1 << 20, kOffset = 5000;
  Buffer() : fd(::memfd_create("buffer", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(fd, kBytes), 0);
    connect(a, b);
    std::ranges::fill(a.memory, std::uint8_t{0x5A});
  }
  ~Buffer() override { ::close(fd); }
  Owned<ibv_mr> region(std::uint64_t offset, std::size_t length, std::uint64_t iova, int access = kEverything) {
    errno = 0;
    return Owned<ibv_mr>(ibv_reg_dmabuf_mr(b.pd.get(), offset, length, iova, fd, access));
  }
  ibv_wc_status write_to(const Owned<ibv_mr>& mr, std::uint64_t address, std::uint32_t bytes) {
    ibv_sge sge = a.sge(0, bytes);
    ibv_send_wr request = write_request(sge, b);
    request.wr.rdma = {.remote_addr = address, .rkey = mr->rkey};
    EXPECT_EQ(post_send(a, request), 0);
    return wait_completion(a.cq.get()).status;
  }
  std::uint8_t byte_at(std::size_t offset) const {
    std::uint8_t byte = 0;
    EXPECT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(offset)), 1);
    return byte;
  }
  Side a = Side::make(), b = Side::make();
  const int fd;
};

TEST_F(Buffer, OfADescriptorIsWrittenByPeers) {
  const Owned<ibv_mr> mr = region(kOffset, 60'000, 1 << 30);
  ASSERT_NE(mr, nullptr) << errno;
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mr->addr), kOffset);
  EXPECT_EQ(mr->length, 60'000u);
  EXPECT_EQ(write_to(mr, (1 << 30) + 10, 50'000), IBV_WC_SUCCESS);
  EXPECT_EQ(byte_at(kOffset + 9), 0);
  EXPECT_EQ(byte_at(kOffset + 10), 0x5A);
  EXPECT_EQ(byte_at(kOffset + 50'009), 0x5A);
  EXPECT_EQ(byte_at(kOffset + 50'010), 0);
  EXPECT_EQ(write_to(mr, (1 << 30) + 60'000, 1), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Buffer, ThatIsCutShortIsMissingMemory) {
  const Owned<ibv_mr> mr = region(0, kBytes, 0);
  ASSERT_EQ(::ftruncate(fd, 0), 0);
  EXPECT_EQ(write_to(mr, 4096, 64), IBV_WC_REM_ACCESS_ERR);
}

TEST_F(Buffer, RegionsThatCannotBe) {
  EXPECT_EQ(region(kBytes, 1, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(region(1, kBytes, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(region(0, 0, 0), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(ibv_reg_dmabuf_mr(b.pd.get(), 0, 4096, 0, -1, kEverything), nullptr);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(Buffer, ThatCannotBeMappedIsRefusedInWords) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  testing::internal::CaptureStderr();
  EXPECT_EQ(ibv_reg_dmabuf_mr(b.pd.get(), 0, 4096, 0, ends[0], kEverything), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("udmabuf"), std::string::npos);
  for (const int end : ends) ::close(end);
}

TEST_F(Buffer, ThatMayNotBeWrittenIsReadOnly) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const int readable = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(readable, 0);
  EXPECT_EQ(ibv_reg_dmabuf_mr(b.pd.get(), 0, 4096, 0, readable, kEverything), nullptr);
  EXPECT_EQ(errno, EACCES);
  const Owned<ibv_mr> mr(ibv_reg_dmabuf_mr(b.pd.get(), 0, 4096, 0, readable, IBV_ACCESS_REMOTE_READ));
  EXPECT_NE(mr, nullptr);
  ::close(readable);
}

}  // namespace
}  // namespace brdma::test
