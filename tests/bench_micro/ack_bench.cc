// Cost of an acknowledgement on a path that holds WINDOW packets of 256 bytes, for callgrind, which counts instructions
// whatever else runs; tests/bench_micro/acknowledgements makes a table of it.
//   valgrind --tool=callgrind --instr-atstart=no build/bin/ack_bench WINDOW POLICY MISSING_PERCENT
// POLICY: bitmap | selective | wan | wan_ffm.  Counted, behind three round trips: run_sender (acknowledgements taken,
// timers), run_receiver (data and timers, acknowledgements and feedback made). One packet leaves each 333 ns.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "long_path.h"
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#endif

using namespace brdma;  // a program, no header
using namespace brdma::bench_micro;

namespace {

constexpr std::uint32_t kMeasuredSteps = 200;

}  // namespace

extern "C" {  // names that callgrind_annotate can show
__attribute__((noinline)) void run_sender(const Host& from, Host& to, Packets& packets, Instant now) {
  hand_over(from, to, packets, now);
}
__attribute__((noinline)) void run_receiver(const Host& from, Host& to, Packets& packets, Packets& out, Instant now) {
  hand_to_receiver(from, to, packets, out, now);
}
}

namespace {

RecoveryMode mode_of(const char* name) {
  if (std::strcmp(name, "bitmap") == 0) return RecoveryMode::kBitmap;
  if (std::strcmp(name, "selective") == 0) return RecoveryMode::kSelective;
  if (std::strcmp(name, "wan") == 0) return RecoveryMode::kWan;
  if (std::strcmp(name, "wan_ffm") == 0) return RecoveryMode::kWanFeedback;
  std::fprintf(stderr, "no such policy: %s\n", name);
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: ack_bench WINDOW POLICY MISSING_PERCENT\n");
    return 2;
  }
  const auto window = static_cast<std::uint32_t>(std::strtoul(argv[1], nullptr, 10));
  const auto ppm = static_cast<std::uint32_t>(std::strtod(argv[3], nullptr) * 10'000);
  LongPath path{mode_of(argv[2]), window, {.receiver = run_receiver, .sender = run_sender}};
  const std::uint32_t trip = window / kStep;  // steps
  for (std::uint32_t i = 0; i < 2 * trip + 64; ++i) path.step(0);
  for (std::uint32_t i = 0; i < 3 * trip + 64; ++i) path.step(ppm);
  const std::uint64_t taken = path.of_sender(Counter::kAcksReceived), got = path.of_receiver(Counter::kAcceptedPackets);
  const std::uint64_t again = path.of_sender(Counter::kSentDataPackets);
  CALLGRIND_START_INSTRUMENTATION;
  for (std::uint32_t i = 0; i < kMeasuredSteps; ++i) path.step(ppm);
  CALLGRIND_STOP_INSTRUMENTATION;
  std::printf("%s\t%s\t%s\t%llu\t%llu\t%llu\n", argv[1], argv[2], argv[3],
              static_cast<unsigned long long>(path.of_sender(Counter::kAcksReceived) - taken),
              static_cast<unsigned long long>(path.of_receiver(Counter::kAcceptedPackets) - got),
              static_cast<unsigned long long>(path.of_sender(Counter::kSentDataPackets) - again));
  return 0;
}
