// tests design BR-43, BR-44: docs/explanation/recovery.md and its picture show the numbers of this run: one loss step
// by step, and the same faults under each recovery mode. Packets of 1024 bytes leave at 10 Gbit/s, 5 us one way.
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>
#include <variant>

#include "support/engine_pair.h"
#include "trace/retransmissions.h"

namespace brdma::test {
namespace {

std::string read(const char* name) {
  std::ifstream in{std::string{BRDMA_DOCS_DIR "/explanation/"} + name};
  return {std::istreambuf_iterator<char>{in}, {}};
}

// In microseconds, to a tenth: "31.9".
std::string tenths(Duration time) {
  const std::int64_t rounded = (time.ns() + 50) / 100;
  return std::to_string(rounded / 10) + "." + std::to_string(rounded % 10);
}

template <class Event>
Duration first(EnginePair& pair, Instant posted) {
  for (const auto& record : pair.world().trace().records()) {
    if (std::holds_alternative<Event>(record.event)) return record.when - posted;
  }
  ADD_FAILURE() << pair.full_trace();
  return {};
}

enum class Fault : std::uint8_t { kNone, kLost, kLate, kTail };

void plant(EnginePair& pair, Fault fault) {
  if (fault == Fault::kLost) pair.drop_copy(Psn{1003}, 1);
  if (fault == Fault::kLate) pair.delay_packet(Psn{1003}, 10300_ns);  // lands behind 1011, before 1012
  if (fault != Fault::kTail) return;
  for (const std::uint32_t psn : {1013u, 1014u, 1015u}) pair.drop_copy(Psn{psn}, 1);
}

// "31.9 us, 1": when the WRITE is complete, and the packets that left again.
std::string cost(RecoveryMode mode, Fault fault) {
  EnginePair pair{{.tx = {.mode = mode}, .rx = {.mode = mode}}};
  if (negotiates(mode)) pair.agree();
  plant(pair, fault);
  pair.world().trace().clear();
  const Instant posted = pair.world().now();
  pair.post_packets(16);
  EXPECT_TRUE(pair.run_until_idle(1_s)) << pair.full_trace();
  std::uint64_t again = 0;
  for (const Counter c : kRetransmissions) again += pair.count(pair.tx(), c);
  return tenths(first<trace::CompletionMade>(pair, posted)) + " us, " + std::to_string(again);
}

TEST(RecoveryPage, TimesOfOneLoss) {
  EnginePair pair;
  pair.agree();
  pair.drop_copy(Psn{1003}, 1);
  const Instant posted = pair.world().now();
  pair.post_packets(16);
  ASSERT_TRUE(pair.run_until_idle(1_ms));
  const std::array times{first<trace::GapSeen>(pair, posted), first<trace::GapPromoted>(pair, posted),
                         first<trace::FfmReceived>(pair, posted), first<trace::GapClosed>(pair, posted),
                         first<trace::CompletionMade>(pair, posted)};
  EXPECT_EQ(first<trace::FfmSent>(pair, posted), times[1]) << "at once";
  const std::string page = read("recovery.md"), picture = read("recovery.svg");
  for (const Duration time : times) {
    EXPECT_NE(page.find("| " + tenths(time) + " |"), std::string::npos) << tenths(time) << pair.full_trace();
    EXPECT_NE(picture.find(">" + tenths(time) + " us"), std::string::npos) << tenths(time) << pair.full_trace();
  }
}

TEST(RecoveryPage, TheSameFaultsUnderEachMode) {
  struct Row {
    const char* name;
    RecoveryMode mode;
  };
  const std::string page = read("recovery.md");
  for (const Row& row : {Row{"bitmap", RecoveryMode::kBitmap}, Row{"selective", RecoveryMode::kSelective},
                         Row{"wan", RecoveryMode::kWan}, Row{"wan_ffm", RecoveryMode::kWanFeedback},
                         Row{"standard", RecoveryMode::kStandard}, Row{"gobackn", RecoveryMode::kGoBackN}}) {
    std::string text = "| `" + std::string{row.name} + "` |";
    for (const Fault fault : {Fault::kNone, Fault::kLost, Fault::kLate, Fault::kTail})
      text += " " + cost(row.mode, fault) + " |";
    EXPECT_NE(page.find(text), std::string::npos) << "docs/explanation/recovery.md does not show " << text;
  }
}

}  // namespace
}  // namespace brdma::test
