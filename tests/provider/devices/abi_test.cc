// The layouts of every release, as recorded from its own headers, against the prober, which probes through four
// functions only.
#include "abi/abi.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "abi/layout.h"
#include "abi/op_table.h"

namespace brdma::provider::abi {
namespace {

// On x86-64: sizeof(verbs_context), and in its table of operations the number of entries and the places of some.
struct Release {
  int release, pabi;
  std::size_t context_bytes, entries;
  std::size_t poll_cq, req_notify_cq, alloc_pd, create_qp, free_context, query_port, resize_cq;
  std::size_t qp_comp_mask;
};

constexpr std::array kReleases{
    Release{28, 25, 648, 67, 50, 64, 5, 19, 39, 57, 66, 344}, Release{30, 25, 648, 67, 50, 64, 5, 19, 39, 57, 66, 344},
    Release{31, 25, 648, 73, 52, 67, 5, 19, 39, 60, 69, 344}, Release{32, 25, 648, 73, 52, 67, 5, 19, 39, 60, 69, 344},
    Release{33, 33, 648, 72, 52, 66, 5, 19, 39, 59, 68, 344}, Release{34, 34, 648, 73, 52, 67, 5, 19, 39, 59, 69, 344},
    Release{35, 34, 648, 75, 53, 68, 5, 19, 39, 60, 70, 344}, Release{36, 34, 648, 76, 53, 69, 5, 19, 39, 60, 71, 344},
    Release{43, 34, 648, 76, 53, 69, 5, 19, 39, 60, 71, 344}, Release{44, 34, 648, 76, 53, 69, 5, 19, 39, 60, 71, 352},
    Release{45, 34, 648, 76, 53, 69, 5, 19, 39, 60, 71, 360}, Release{58, 57, 648, 76, 53, 69, 5, 19, 39, 60, 71, 360},
    Release{59, 59, 672, 79, 55, 72, 6, 20, 41, 62, 74, 360}, Release{62, 59, 680, 81, 56, 74, 6, 20, 42, 63, 76, 360},
    Release{64, 64, 696, 83, 58, 76, 7, 21, 44, 65, 78, 360}, Release{65, 65, 696, 93, 62, 84, 7, 22, 46, 71, 86, 360},
};

Release loaded;  // the layout of the fake library below
std::size_t contexts_alive = 0;

std::size_t context_offset() { return loaded.context_bytes - kContextBytes; }

void* init_and_alloc_context(void* device, int cmd_fd, std::size_t bytes, void* offset, std::uint32_t) {
  EXPECT_EQ(cmd_fd, -1);
  EXPECT_EQ(offset, nullptr);
  auto* context = static_cast<std::byte*>(std::calloc(1, bytes));
  std::memcpy(context + context_offset() - kContextSizeBefore, &loaded.context_bytes, sizeof(std::size_t));
  std::memcpy(context + context_offset(), &device, sizeof device);
  ++contexts_alive;
  return context;
}

// Copies the entries that programs see: poll_cq and req_notify_cq.
void set_ops(void* context, const void* ops) {
  auto* to = static_cast<std::byte*>(context) + context_offset();
  const auto* from = static_cast<const std::byte*>(ops);
  std::memcpy(to + kPublicPollCq, from + loaded.poll_cq * sizeof(void*), sizeof(void*));
  std::memcpy(to + kPublicReqNotifyCq, from + loaded.req_notify_cq * sizeof(void*), sizeof(void*));
}

void uninit_context(void*) { --contexts_alive; }

void* qp_to_qp_ex(void* qp) {
  std::uint32_t mask;
  std::memcpy(&mask, static_cast<std::byte*>(qp) + loaded.qp_comp_mask, sizeof mask);
  return (mask & kVerbsQpEx) != 0 ? qp : nullptr;
}

Result<Layout, std::string> probe(const Release& release) {
  loaded = release;
  loaded.context_bytes += kMutexGrowth;
  if (loaded.qp_comp_mask != 0) loaded.qp_comp_mask += kMutexGrowth;
  static std::array<std::byte, kDeviceBytes> device;
  return probe_layout({init_and_alloc_context, set_ops, uninit_context, qp_to_qp_ex}, device.data(), release.pabi);
}

TEST(Layout, EveryReleaseIsRecognised) {
  for (const Release& release : kReleases) {
    SCOPED_TRACE(release.release);
    const auto layout = probe(release);
    ASSERT_TRUE(layout.ok()) << layout.reason();
    EXPECT_EQ(layout.value().context_offset, context_offset());
    EXPECT_EQ(layout.value().qp_comp_mask, loaded.qp_comp_mask);
    const int table = layout.value().release;
    EXPECT_LE(table, release.release);
    EXPECT_EQ(op_count(table), release.entries);
    EXPECT_EQ(op_index("poll_cq", table), release.poll_cq);
    EXPECT_EQ(op_index("req_notify_cq", table), release.req_notify_cq);
    EXPECT_EQ(op_index("alloc_pd", table), release.alloc_pd);
    EXPECT_EQ(op_index("create_qp", table), release.create_qp);
    EXPECT_EQ(op_index("free_context", table), release.free_context);
    EXPECT_EQ(op_index("query_port", table), release.query_port);
    EXPECT_EQ(op_index("resize_cq", table), release.resize_cq);
    EXPECT_EQ(contexts_alive, 0u);
  }
}

// The PABI in a plugin's file name does not identify the table: 34 and 31 have poll_cq and req_notify_cq at the same
// places.
TEST(Layout, PabiDistinguishesRelease31From34) {
  EXPECT_EQ(release_of_table(52, 67, 25), 31);
  EXPECT_EQ(release_of_table(52, 67, 34), 34);
  EXPECT_TRUE(op_index("query_device", 31).has_value());
  EXPECT_FALSE(op_index("query_device", 34).has_value());
}

TEST(Layout, UnknownTableIsRefusedInWords) {
  Release unknown = kReleases.back();
  unknown.poll_cq += 1;
  const auto layout = probe(unknown);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.reason().find("table of operations"), std::string::npos) << layout.reason();
  EXPECT_NE(layout.reason().find("update libbitmaprdma"), std::string::npos) << layout.reason();
  EXPECT_EQ(contexts_alive, 0u);
}

TEST(Layout, UnknownContextIsRefusedInWords) {
  Release unknown = kReleases.back();
  unknown.context_bytes = 3000;  // beyond the searched range
  const auto layout = probe(unknown);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.reason().find("verbs_context"), std::string::npos) << layout.reason();
  EXPECT_EQ(contexts_alive, 0u);
}

TEST(Layout, UnknownQueuePairIsRefusedInWords) {
  Release unknown = kReleases.back();
  unknown.qp_comp_mask = 0;
  const auto layout = probe(unknown);
  ASSERT_FALSE(layout.ok());
  EXPECT_NE(layout.reason().find("verbs_qp"), std::string::npos) << layout.reason();
}

TEST(OpTable, SetsByNameAndSkipsWhatTheReleaseLacks) {
  OpTable table(44);
  table.set(
      "poll_cq", +[] {});
  table.set(
      "query_device", +[] {});  // gone since 33
  const auto* slots = static_cast<void* const*>(table.data());
  for (std::size_t i = 0; i < kOpsMax; ++i) EXPECT_EQ(slots[i] != nullptr, i == 53) << i;
}

}  // namespace
}  // namespace brdma::provider::abi
