#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "qp/receive/early_packets.h"
#include "support/checks.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kMtu = 1024;
bitmap::SegmentPool pool;

wire::Packet packet(std::uint32_t psn, ConstBytes payload = {}) {
  wire::Packet p;
  p.bth.psn = Psn{psn};
  p.payload = payload;
  return p;
}

TEST(EarlyPackets, CopiesWhatItHolds) {
  EarlyPackets early{kMtu, 1 << 20, {}, pool};
  std::vector<std::byte> bytes(700, std::byte{7});
  ASSERT_TRUE(early.hold(Psn{10}, packet(12, bytes)));
  std::fill(bytes.begin(), bytes.end(), std::byte{9});
  const auto* record = early.find(Psn{12});
  ASSERT_NE(record, nullptr);
  EXPECT_FALSE(record->placed);
  EXPECT_EQ(record->packet.payload.size(), 700u);
  EXPECT_EQ(record->packet.payload[699], std::byte{7});
  EXPECT_EQ(early.find(Psn{11}), nullptr);
  early.release(Psn{11});
  early.release(Psn{12});
  EXPECT_TRUE(early.empty());
  EXPECT_EQ(early.held_bytes(), 0u);
  EXPECT_EQ(early.find(Psn{12}), nullptr);
}

TEST(EarlyPackets, BoundCountsBuffersNotBytes) {
  EarlyPackets early{kMtu, 2 * kMtu + 256, {}, pool};
  const std::vector<std::byte> bytes(kMtu);
  EXPECT_TRUE(early.hold(Psn{0}, packet(1, ConstBytes{bytes}.first(257))));
  EXPECT_TRUE(early.hold(Psn{0}, packet(2, bytes)));
  EXPECT_FALSE(early.hold(Psn{0}, packet(3, ConstBytes{bytes}.first(257))));
  EXPECT_EQ(early.find(Psn{3}), nullptr);
  EXPECT_TRUE(early.hold(Psn{0}, packet(3, ConstBytes{bytes}.first(256))));
  EXPECT_FALSE(early.hold(Psn{0}, packet(4, ConstBytes{bytes}.first(1))));
  EXPECT_TRUE(early.hold(Psn{0}, packet(4)));  // an empty packet needs no buffer
  EXPECT_EQ(early.held_bytes(), 2 * kMtu + 256u);
  early.release(Psn{2});
  EXPECT_TRUE(early.hold(Psn{0}, packet(5, bytes)));
}

TEST(EarlyPackets, TwoOfOnePsnAreOurBug) {
  test::ThrowingChecks checks;
  EarlyPackets early{kMtu, 1 << 20, {}, pool};
  ASSERT_TRUE(early.hold(Psn{0}, packet(1)));
  EXPECT_THROW(early.hold(Psn{0}, packet(1)), test::CheckFailed);
}

TEST(EarlyPackets, AgainstAMapAsTheWindowMovesOverTheWrap) {
  Random random{7};
  EarlyPackets early{kMtu, 1 << 22, {}, pool};
  std::map<std::uint32_t, std::vector<std::byte>> model;  // by PSN
  Psn base{0xFF'FF00};
  for (int step = 0; step < 20'000; ++step) {
    const Psn psn = base + static_cast<std::uint32_t>(random.below(600));
    if (random.below(3) != 0) {
      if (model.contains(psn.value())) continue;
      std::vector<std::byte> bytes(random.below(kMtu + 1), static_cast<std::byte>(step));
      if (!early.hold(base, packet(psn.value(), bytes))) continue;
      model[psn.value()] = bytes;
    } else {
      for (std::uint64_t n = random.below(4); n > 0; --n) {
        early.release(base);
        model.erase(base.value());
        base = base + 1;
      }
    }
    ASSERT_EQ(early.size(), model.size());
  }
  for (const auto& [psn, bytes] : model) {
    const auto* record = early.find(Psn{psn});
    ASSERT_NE(record, nullptr);
    ASSERT_EQ(record->packet.payload.size(), bytes.size());
    EXPECT_TRUE(bytes.empty() || std::memcmp(record->packet.payload.data(), bytes.data(), bytes.size()) == 0);
  }
  early.clear();
  EXPECT_TRUE(early.empty());
}

// A late packet may write the bytes that no later packet has written: byte by byte.
TEST(EarlyPackets, UncoveredIsWhatNoLaterPacketHasWritten) {
  Random random{3};
  std::vector<std::byte> memory(40 * kMtu);
  for (int round = 0; round < 300; ++round) {
    EarlyPackets early{kMtu, 1 << 20, {}, pool};
    const Psn base{static_cast<std::uint32_t>(random.next())};
    std::vector<std::uint32_t> newest(memory.size(), 0);  // offset from base, plus one, of the byte's last writer
    const std::vector<std::byte> payload(kMtu);
    std::map<std::uint32_t, bool> used;
    for (int i = 0; i < 20; ++i) {
      const auto psn = static_cast<std::uint32_t>(random.below(300));
      if (used[psn]) continue;
      used[psn] = true;
      // Aligned like a message in one buffer half of the time, so that packets cover each other exactly.
      const std::size_t at = random.below(2) == 0 ? random.below(8) * kMtu : random.below(memory.size() - kMtu);
      early.note_placed(base, packet((base + psn).value(), payload), &memory[at]);
      for (std::size_t b = at; b < at + kMtu; ++b) newest[b] = std::max(newest[b], psn + 1);
    }
    for (int i = 0; i < 20; ++i) {
      const auto psn = static_cast<std::uint32_t>(random.below(300));
      if (used[psn]) continue;
      const std::size_t size = random.below(kMtu + 1), at = random.below(memory.size() - kMtu);
      const auto run = early.uncovered(base + psn, &memory[at], size);
      for (std::size_t b = 0; b < size; ++b) {
        const bool may_write = newest[at + b] <= psn + 1;
        ASSERT_EQ(may_write, b >= run.offset && b < run.offset + run.size) << "byte " << b << " of PSN +" << psn;
      }
    }
    for (const auto& [psn, there] : used) early.release(base + psn);
    ASSERT_TRUE(early.empty());
    const auto all = early.uncovered(base, memory.data(), kMtu);
    EXPECT_EQ(all.size, kMtu);
  }
}

// Places examined for one packet, if one of 16 is missing from `count`: each message in memory of its own, or all in
// one buffer.
double searched_per_packet(std::uint32_t count, std::uint32_t buffer_packets) {
  const auto memory = std::make_unique_for_overwrite<std::byte[]>(std::size_t{buffer_packets} * kMtu + 64);
  const std::vector<std::byte> payload(kMtu);
  bitmap::WindowShape shape;
  EarlyPackets early{kMtu, 1 << 20, shape, pool};
  const auto place = [&](std::uint32_t psn) {
    return memory.get() + 64 + std::size_t{psn % buffer_packets} * kMtu;  // not aligned: packets lie in two blocks
  };
  for (std::uint32_t psn = 1; psn <= count; ++psn) {
    if (psn % 16 != 0) early.note_placed(Psn{0}, packet(psn, payload), place(psn));
  }
  for (std::uint32_t psn = 16; psn <= count; psn += 16) (void)early.uncovered(Psn{psn}, place(psn), kMtu);
  const double searched = static_cast<double>(early.places_searched()) / (count / 16);
  for (std::uint32_t psn = 1; psn <= count; ++psn) early.release(Psn{psn});
  EXPECT_TRUE(early.empty());
  return searched;
}

// A count, not a time: the cost of a late packet must not depend on the number of early ones.
TEST(EarlyPackets, WhatIsUncoveredIsFoundInFewStepsHoweverManyAreThere) {
  for (const std::uint32_t count : {1000u, 10'000u, 300'000u}) {
    SCOPED_TRACE(count);
    EXPECT_LT(searched_per_packet(count, count + 1), 20) << "memory of its own: neighbours in its two blocks";
    EXPECT_LT(searched_per_packet(count, 61), 20) << "one buffer: the newest covers it";
  }
}

}  // namespace
}  // namespace brdma::qp
