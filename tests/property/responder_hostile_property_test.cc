// A peer that sends anything: every field of its packets is random, near the right value or far from it. The responder
// never fails an assertion, never writes outside of registered or posted memory, keeps bounded state, does not spin,
// and counts every packet it does not use.
#include "support/responder_script.h"
#include "support/seeds.h"

namespace brdma {
namespace {

using test::kScriptMtu;
using test::kScriptVa;
using wire::RcOp;
using Script = test::ResponderScript;

constexpr std::size_t kGuard = 65536, kOpen = 65536;  // of region_bytes, only [kGuard, kGuard + kOpen) is registered
constexpr RcOp kOps[] = {RcOp::kSendFirst,   RcOp::kSendMiddle,  RcOp::kSendLast,     RcOp::kSendLastImm,
                         RcOp::kSendOnly,    RcOp::kSendOnlyImm, RcOp::kWriteFirst,   RcOp::kWriteMiddle,
                         RcOp::kWriteLast,   RcOp::kWriteOnly,   RcOp::kWriteLastImm, RcOp::kWriteOnlyImm,
                         RcOp::kReadRequest, RcOp::kCompareSwap, RcOp::kFetchAdd,     RcOp::kSendLastInvalidate,
                         RcOp::kWriteMiddle, RcOp::kFlush,       RcOp::kAtomicWrite,  RcOp::kSendOnlyInvalidate};

// Mostly small, sometimes at an edge, sometimes anything.
std::uint64_t odd(Random& random, std::uint64_t small) {
  switch (random.below(8)) {
    case 0:
      return random.next();
    case 1:
      return ~std::uint64_t{0} - random.below(3);
    case 2:
      return 0;
    default:
      return random.below(small);
  }
}

wire::Packet hostile(Script& rx, Random& random) {
  const Psn base = rx.next_expected();
  const std::uint32_t near = base.value() + static_cast<std::uint32_t>(random.below(24)) - 4;
  const auto psn = random.below(10) == 0 ? static_cast<std::uint32_t>(odd(random, 100)) : near;
  rx.identity.bitmap_agreed = random.below(3) != 0;
  std::size_t size = kScriptMtu;
  if (random.below(3) == 0) size = random.below(600);
  auto p = rx.packet(kOps[random.below(std::size(kOps))], psn & Psn::kMask, size);
  if (p.op == RcOp::kAtomicWrite && size >= 8 && random.below(4) != 0) p.payload = p.payload.first(8);
  const bool carries = wire::is_send(p.op) || wire::is_write(p.op) || p.op == RcOp::kAtomicWrite;
  if (!carries) p.payload = {};
  p.bth.ack_request = random.below(2) == 0;
  p.bth.solicited = random.below(2) == 0;
  p.bxth.packet_index = static_cast<std::uint32_t>(odd(random, 4)) & 0xFF'FFFF;
  p.bxth.rsn = static_cast<std::uint32_t>(odd(random, 4)) & 0xFF'FFFF;
  p.bxth.msn = static_cast<std::uint32_t>(odd(random, 4)) & 0xFF'FFFF;
  p.bxth.timestamp = random.next();
  p.bxth.retransmitted = random.below(2) == 0;
  p.reth.address = kScriptVa + odd(random, kOpen + 1024);
  if (random.below(3) == 0) p.reth.address = kScriptVa + p.bxth.packet_index * std::uint64_t{kScriptMtu};
  p.reth.length = static_cast<std::uint32_t>(odd(random, 2000));
  p.atomic.address = kScriptVa + odd(random, kOpen + 64);
  p.feth = {static_cast<std::uint8_t>(random.below(4)), static_cast<std::uint8_t>(random.below(4))};
  if (p.op == RcOp::kAtomicWrite && random.below(4) != 0) p.reth.length = 8;
  if (p.op == RcOp::kAtomicWrite && random.below(4) != 0) p.reth.address &= ~std::uint64_t{7};
  if (random.below(10) == 0) p.reth.rkey = p.atomic.rkey = static_cast<std::uint32_t>(random.next());
  return p;
}

bool only(const test::Bytes& bytes, std::size_t from, std::size_t to, std::byte value) {
  for (std::size_t i = from; i < to; ++i) {
    if (bytes[i] != value) return false;
  }
  return true;
}

void check_seed(Random& random) {
  test::ScriptOptions options;
  options.mode = static_cast<RecoveryMode>(random.below(3));
  options.recovery.window_packets = 64;
  options.recovery.hold_bytes_max = 2048;
  options.first_psn = static_cast<std::uint32_t>(random.next()) & Psn::kMask;
  Script rx{options};
  ASSERT_TRUE(rx.table().remove(rx.region).ok());
  std::fill(rx.region_bytes.begin(), rx.region_bytes.end(), std::byte{0xA5});
  std::fill(rx.receive_bytes.begin(), rx.receive_bytes.end(), std::byte{0xA5});
  rx.region =
      rx.table()
          .add(rx.identity.pd, reinterpret_cast<std::uintptr_t>(rx.region_bytes.data()) + kGuard, kOpen, kScriptVa,
               kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal)
          .value();
  constexpr std::uint32_t kReceive = 500;
  std::uint32_t posted = 0;
  Duration now;
  std::uint64_t packets = 0, kept = 0;
  for (int i = 0; i < 2000; ++i) {
    if (posted < 100 && random.below(8) == 0) {
      rx.posts_receive(kReceive);
      ++posted;
    }
    now = now + Duration::from_ns(static_cast<std::int64_t>(random.below(30'000)));
    const std::uint64_t dropped = rx.environment.telemetry.dropped;
    rx.at(now).gets(hostile(rx, random));
    ++packets;
    if (rx.environment.telemetry.dropped == dropped) ++kept;
    ASSERT_LE(rx.environment.telemetry.dropped, dropped + 1) << "one packet, one reason";
    const auto state = rx.responder->snapshot();
    ASSERT_LE(state.held_bytes, options.recovery.hold_bytes_max);
    ASSERT_LE(state.early_packets, 64u);
    ASSERT_LE(state.gaps, 64u);
    ASSERT_LE(state.responses, 64u);
    if (testing::Test::HasFailure()) return;
    if (!rx.failed) continue;
    rx.forget();  // the NAK leaves
    rx.failed = false;
    rx.responder->reset();
    rx.identity.state = QpState::kRts;
    rx.responder->start(Psn{static_cast<std::uint32_t>(random.next())});
    posted = 0;
    rx.restart_receives();
  }
  rx.at(now + 100_us).forget();
  EXPECT_EQ(kept + rx.environment.telemetry.dropped, packets);
  EXPECT_TRUE(only(rx.region_bytes, 0, kGuard, std::byte{0xA5}));
  EXPECT_TRUE(only(rx.region_bytes, kGuard + kOpen, test::kScriptRegion, std::byte{0xA5}));
  for (std::size_t i = 0; i < 100; ++i) {
    const std::size_t at = i * Script::kReceiveStride;
    EXPECT_TRUE(only(rx.receive_bytes, at + kReceive, at + Script::kReceiveStride, std::byte{0xA5}));
  }
}

TEST(ResponderHostile, AnythingAtAll) { test::for_each_seed(200, check_seed); }

}  // namespace
}  // namespace brdma
