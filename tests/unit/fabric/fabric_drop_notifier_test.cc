// tests design DN-4: the token bucket that bounds a switch's notifications. The largest burst, the refill to the
// nanosecond, the count of what exceeds it, and a full bucket at the start and after a pause.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "fabric/switch/drop_notifier.h"
#include "wire/edn.h"
#include "wire/packet.h"

namespace brdma::fabric {
namespace {

constexpr Instant at(Duration since_start) { return Instant::from_ns(1'000'000'000) + since_start; }
constexpr std::uint32_t kBurst = 4;
constexpr Duration kRefill = 1_ms;  // of one token, at 1,000 a second

std::vector<std::byte> data_packet(std::uint32_t psn) {
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(wire::RcOp::kWriteOnly, /*bitmap=*/true);
  packet.bth.dest_qpn = 0x2203;
  packet.bth.psn = Psn{psn};
  packet.bxth.source_qpn = 0x1102;
  std::vector<std::byte> bytes(wire::kPacketHeadersMax);
  bytes.resize(wire::emit_headers(packet, bytes.data()));
  bytes.resize(bytes.size() + 64 + wire::kIcrcSize);
  return bytes;
}

class NoticeBound : public testing::TestWithParam<EdnForm> {
 protected:
  // Drops that cannot be merged: each makes one report. Returns the PSNs of the notifications.
  std::vector<std::uint32_t> drop(std::uint32_t count, Instant now) {
    for (std::uint32_t i = 0; i < count; ++i, psn += 2) {
      const auto bytes = data_packet(psn);
      notifier.dropped({.source = IpAddress::v4(10, 0, 0, 1),
                        .destination = IpAddress::v4(10, 0, 0, 2),
                        .source_port = 0xC000,
                        .payload = bytes},
                       10_us, now);
    }
    std::vector<std::uint32_t> named;
    while (const auto notice = notifier.poll()) named.push_back(psn_of(*notice));
    return named;
  }
  static std::uint32_t psn_of(const DropNotice& notice) {
    if (GetParam() == EdnForm::kRoce) return wire::parse_bth(notice.view().first<wire::kBthSize>()).psn.value();
    const auto icmp = wire::parse_icmp_edn(notice.view());
    EXPECT_TRUE(icmp);
    return icmp ? icmp->edn.first.value() : 0;
  }
  [[nodiscard]] std::uint64_t limited() const { return notifier.counters().limited; }

  DropNotifier notifier{{.form = GetParam(), .notices_per_second = 1'000, .burst = kBurst}};
  std::uint32_t psn = 100;
};

TEST_P(NoticeBound, ABurstLeavesAtOnceAndNoMore) {
  EXPECT_EQ(drop(kBurst, at(0_us)), (std::vector<std::uint32_t>{100, 102, 104, 106}));
  EXPECT_EQ(limited(), 0u);
  EXPECT_TRUE(drop(3, at(0_us)).empty());
  EXPECT_EQ(limited(), 3u);
  EXPECT_EQ(notifier.counters().sent, kBurst);
}

TEST_P(NoticeBound, OneTokenComesBackAtATime) {
  drop(kBurst, at(0_us));
  EXPECT_TRUE(drop(1, at(kRefill - kTick)).empty());
  EXPECT_EQ(drop(2, at(kRefill)), std::vector<std::uint32_t>{110});
  EXPECT_TRUE(drop(1, at(kRefill * 2 - kTick)).empty());
  EXPECT_EQ(drop(5, at(kRefill * 4)).size(), 3u) << "tokens of 2, 3 and 4 ms";
  EXPECT_EQ(limited(), 1u + 1u + 1u + 2u);
}

// What comes at no more than the rate never meets the bound.
TEST_P(NoticeBound, TheRateItselfIsNotBounded) {
  for (int i = 0; i < 100; ++i) EXPECT_EQ(drop(1, at(kRefill * i)).size(), 1u) << i;
  EXPECT_EQ(limited(), 0u);
}

TEST_P(NoticeBound, APauseFillsTheBucketAndNoMore) {
  drop(kBurst, at(0_us));
  EXPECT_EQ(drop(10 * kBurst, at(1_s)).size(), kBurst);
  EXPECT_EQ(limited(), 9u * kBurst);
}

// A driver's clock may begin at 0, as the simulator's does.
TEST_P(NoticeBound, TheBucketIsFullAtTheStart) {
  EXPECT_EQ(drop(kBurst + 1, Instant{}).size(), kBurst);
  EXPECT_EQ(limited(), 1u);
}

// A dropped report stays dropped: the switch does not report it later, its receiver detects the loss.
TEST_P(NoticeBound, EachReportIsSentOrCounted) {
  std::uint64_t named = 0;
  for (int i = 0; i < 50; ++i) named += drop(3, at(kRefill / 2 * i)).size();
  notifier.handle_timeout(at(1_s));
  EXPECT_TRUE(drop(0, at(1_s)).empty());
  const auto& reports = notifier.table().counters();
  EXPECT_EQ(reports.first, 150u);
  EXPECT_EQ(named, notifier.counters().sent);
  EXPECT_EQ(reports.first + reports.tails, named + limited());
  EXPECT_EQ(named, kBurst + 24u);  // a burst, and a token in each of the 24 ms until the last drops
}

// The tail of a silent flow needs a token, too.
TEST_P(NoticeBound, TailsCountAsWell) {
  drop(kBurst - 1, at(0_us));
  --psn;  // the next behind the last
  EXPECT_TRUE(drop(1, at(0_us)).empty());
  notifier.handle_timeout(at(100_us));
  EXPECT_EQ(notifier.counters().sent, kBurst);
  EXPECT_EQ(drop(0, at(100_us)).size(), 1u);
  EXPECT_TRUE(drop(1, at(100_us)).empty());
  EXPECT_EQ(limited(), 1u);
}

INSTANTIATE_TEST_SUITE_P(Forms, NoticeBound, testing::Values(EdnForm::kIcmp, EdnForm::kRoce),
                         [](const auto& form) { return form.param == EdnForm::kIcmp ? "Icmp" : "Roce"; });

}  // namespace
}  // namespace brdma::fabric
