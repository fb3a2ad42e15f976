// A responder against a naive model: random messages, split into packets of both formats, over a network that loses,
// repeats and delays, retransmitted until all is acknowledged. However they come, memory, completions and responses
// must be those of a world in which each packet comes once, in order.
#include <algorithm>
#include <deque>
#include <map>

#include "qp/respond/responder_resources.h"
#include "support/responder_script.h"
#include "support/seeds.h"

namespace brdma {
namespace {

using test::kScriptMtu;
using test::kScriptVa;
using wire::RcOp;
using Script = test::ResponderScript;

constexpr std::uint32_t kBuffer = 4096;  // WRITEs, small enough that they overwrite each other all the time
constexpr std::uint64_t kWords = 8192;   // atomics, apart from the WRITEs: there is no promised order between them
constexpr std::uint64_t kReadable = 16384;

struct World {
  test::Bytes region;
  std::vector<std::string> completions;
  std::map<std::uint32_t, std::uint64_t> atomics;  // PSN -> original
};

// Messages in order: their packets, and their effects in order.
struct Plan {
  std::vector<wire::Packet> packets;      // by PSN, except READs, which take several
  std::vector<std::uint32_t> psns_taken;  // by packet
  World world;
  std::uint32_t receives = 0, receive_bytes = 600;
};

void plan_write(Script& rx, Plan& plan, std::uint32_t& psn, std::uint32_t& msn, std::uint32_t& rsn, Random& random) {
  const auto length = static_cast<std::uint32_t>(random.below(3) == 0 ? random.below(64) : random.below(1500));
  const std::uint64_t offset = random.below(kBuffer - length);
  const std::uint32_t packets = qp::response_packets(length, kScriptMtu);
  const bool immediate = random.below(4) == 0;
  for (std::uint32_t i = 0; i < packets; ++i) {
    rx.identity.bitmap_agreed = random.below(4) != 0;
    auto p = rx.write(psn + i, i, length, offset);
    if (immediate && i + 1 == packets) {
      p.op = packets == 1 ? RcOp::kWriteOnlyImm : RcOp::kWriteLastImm;
      p.bth.opcode = wire::opcode_of(p.op, p.bitmap);
      p.immediate_be = psn;
    }
    p.bxth.msn = msn;
    p.bxth.rsn = rsn;
    std::copy(p.payload.begin(), p.payload.end(),
              plan.world.region.begin() + static_cast<std::ptrdiff_t>(offset + i * kScriptMtu));
    plan.packets.push_back(p);
    plan.psns_taken.push_back(1);
  }
  if (immediate) {
    plan.world.completions.push_back(std::to_string(++plan.receives) + " ok " + std::to_string(length) +
                                     " write imm=" + std::to_string(psn));
    ++rsn;
  }
  psn += packets;
  ++msn;
}

void plan_send(Script& rx, Plan& plan, std::uint32_t& psn, std::uint32_t& msn, std::uint32_t& rsn, Random& random) {
  const auto length = static_cast<std::uint32_t>(random.below(plan.receive_bytes + 1));
  const std::uint32_t packets = qp::response_packets(length, kScriptMtu);
  for (std::uint32_t i = 0; i < packets; ++i) {
    rx.identity.bitmap_agreed = random.below(4) != 0;
    auto p = rx.send(psn + i, i, length, rsn);
    p.bxth.msn = msn;
    plan.packets.push_back(p);
    plan.psns_taken.push_back(1);
  }
  plan.world.completions.push_back(std::to_string(++plan.receives) + " ok " + std::to_string(length));
  psn += packets;
  ++msn;
  ++rsn;
}

Plan make_plan(Script& rx, Random& random, std::uint32_t psn) {
  Plan plan;
  plan.world.region = rx.region_bytes;
  std::uint32_t msn = 0, rsn = 0;
  std::uint64_t word = 0;
  for (int i = 0; i < 60; ++i) {
    const std::uint64_t kind = random.below(10);
    if (kind < 5) {
      plan_write(rx, plan, psn, msn, rsn, random);
    } else if (kind < 8) {
      plan_send(rx, plan, psn, msn, rsn, random);
    } else if (kind == 8) {
      rx.identity.bitmap_agreed = random.below(4) != 0;
      plan.packets.push_back(rx.fetch_add(psn, kWords, psn));
      plan.psns_taken.push_back(1);
      plan.world.atomics[psn & Psn::kMask] = word;
      word += psn;
      ++psn;
      ++msn;
    } else {
      rx.identity.bitmap_agreed = random.below(4) != 0;
      const auto length = static_cast<std::uint32_t>(random.below(1200));
      plan.packets.push_back(rx.read(psn, length, kReadable));
      plan.psns_taken.push_back(qp::response_packets(length, kScriptMtu));
      psn += plan.psns_taken.back();
      ++msn;
    }
  }
  std::memcpy(&plan.world.region[kWords], &word, 8);
  return plan;
}

// The packets in flight: each is lost, duplicated or late by chance. A sender of the simplest kind retransmits all
// packets whose PSN is not before the last reported base.
void play(Script& rx, const Plan& plan, Random& random, std::uint32_t first, std::uint32_t next) {
  Duration now;
  for (int round = 0; round < 400; ++round) {
    std::deque<const wire::Packet*> wire;
    std::uint32_t psn = first;
    for (std::size_t i = 0; i < plan.packets.size(); psn += plan.psns_taken[i++]) {
      if (distance(Psn{psn}, rx.next_expected()) < 0 && random.below(20) != 0) continue;
      if (random.below(100) < 20) continue;
      const std::size_t copies = random.below(100) < 5 ? 2 : 1;
      for (std::size_t c = 0; c < copies; ++c) {
        const std::size_t late = random.below(100) < 20 ? random.below(12) : 0;
        wire.insert(wire.end() - static_cast<std::ptrdiff_t>(std::min(late, wire.size())), &plan.packets[i]);
      }
    }
    for (const wire::Packet* packet : wire) {
      now = now + Duration::from_ns(static_cast<std::int64_t>(random.below(2000)));
      auto sent = *packet;
      sent.bxth.retransmitted = round > 0;
      rx.at(now).gets(sent);
      if (rx.failed) return;
    }
    now = now + 100_us;
    rx.at(now).forget();
    // A standard peer's packets without AckReq would never get an acknowledgement of the tail: request it.
    if (rx.next_expected() == Psn{next}) return;
  }
}

void check_reads(const Script& rx, const Plan& plan) {
  for (const auto& packet : plan.packets) {
    if (packet.op != RcOp::kReadRequest) continue;
    test::Bytes got;
    for (std::uint32_t i = 0; i < qp::response_packets(packet.reth.length, kScriptMtu); ++i) {
      const auto answer = rx.read_answers.find((packet.bth.psn + i).value());
      ASSERT_NE(answer, rx.read_answers.end());
      got.insert(got.end(), answer->second.begin(), answer->second.end());
    }
    EXPECT_TRUE(std::equal(got.begin(), got.end(), rx.region_bytes.begin() + kReadable));
    EXPECT_EQ(got.size(), packet.reth.length);
  }
}

void check_seed(Random& random, RecoveryMode mode) {
  test::ScriptOptions options;
  options.mode = mode;
  options.first_psn = static_cast<std::uint32_t>(Psn::kMask - random.below(200));  // over the wrap
  options.recovery.window_packets = 64u << random.below(3);
  options.recovery.hold_bytes_max = static_cast<std::uint32_t>(1024u << random.below(6));
  Script rx{options};
  for (std::size_t i = 0; i < 4096; ++i) rx.region_bytes[kReadable + i] = static_cast<std::byte>(i * 31);
  Plan plan = make_plan(rx, random, options.first_psn);
  rx.identity.bitmap_agreed = mode == RecoveryMode::kBitmap;
  for (std::uint32_t i = 0; i < plan.receives; ++i) rx.posts_receive(plan.receive_bytes);
  std::uint32_t next = options.first_psn;
  for (const std::uint32_t taken : plan.psns_taken) next += taken;
  play(rx, plan, random, options.first_psn, next);
  EXPECT_FALSE(rx.failed);
  EXPECT_EQ(rx.next_expected(), Psn{next});
  EXPECT_TRUE(rx.region_bytes == plan.world.region) << "memory differs from that of an orderly world";
  rx.completes(plan.world.completions);
  for (const auto& [psn, original] : rx.atomic_answers) {
    EXPECT_EQ(original, std::set<std::uint64_t>{plan.world.atomics.at(psn)}) << "atomic " << psn;
  }
  EXPECT_EQ(rx.atomic_answers.size(), plan.world.atomics.size());
  check_reads(rx, plan);
  const auto end = rx.responder->snapshot();
  EXPECT_EQ(end.early_packets + end.held_bytes + end.gaps + end.responses + end.receives, 0u);
}

TEST(ResponderProperty, DisorderMakesNoDifferenceInBitmapMode) {
  test::for_each_seed(300, [](Random& random) { check_seed(random, RecoveryMode::kBitmap); });
}
TEST(ResponderProperty, DisorderMakesNoDifferenceToAStandardPeer) {
  test::for_each_seed(200, [](Random& random) { check_seed(random, RecoveryMode::kStandard); });
}
TEST(ResponderProperty, DisorderMakesNoDifferenceInGoBackN) {
  test::for_each_seed(100, [](Random& random) { check_seed(random, RecoveryMode::kGoBackN); });
}

}  // namespace
}  // namespace brdma
