// One stream in the simulator, over a switch as in the lab, as a line of tab-separated values: the other half of
// tests/figures/lab.
//   stream_point RATE_MBIT DELAY_US QUEUE_KB MTU BYTES POSTED LOSS_PPM REORDER_PPM DEPTH MS SEED [read]
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "streams/stream.h"

namespace brdma::test {
namespace {

PathMtu mtu_of(unsigned long bytes) {
  for (const PathMtu mtu : {PathMtu::k256, PathMtu::k512, PathMtu::k1024, PathMtu::k2048}) {
    if (bytes == mtu_bytes(mtu)) return mtu;
  }
  return PathMtu::k4096;
}

void run(char** words) {
  const auto number = [words](int place) { return std::strtoul(words[place], nullptr, 10); };
  const auto count = [number](int place) { return static_cast<std::uint32_t>(number(place)); };
  StreamConfig config;
  config.rate_bps = number(1) * 1'000'000;
  config.delay = 1_us * static_cast<std::int64_t>(number(2));
  config.queue_bytes = number(3) * 1024;
  config.mtu = mtu_of(number(4));
  config.request_bytes = count(5);
  config.requests_posted = count(6);
  config.loss_ppm = count(7);
  config.reorder_ppm = count(8);
  config.reorder_depth = count(9);
  config.measured = 1_ms * static_cast<std::int64_t>(number(10));
  config.seed = number(11);
  config.reads = words[12] != nullptr;
  config.flight_log = true;
  config.switched = true;
  const StreamResult result = run_stream(config);
  std::printf("%.0f\t%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n", result.bits_per_second(config),
              static_cast<unsigned long long>(result.packets),
              static_cast<unsigned long long>(result.lost + result.queue_dropped),
              static_cast<unsigned long long>(result.retransmitted), static_cast<unsigned long long>(result.promoted),
              static_cast<unsigned long long>(result.misjudged), static_cast<unsigned long long>(result.duplicates));
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  if (argc != 12 && (argc != 13 || std::string_view{argv[12]} != "read")) {
    std::fprintf(
        stderr,
        "stream_point RATE_MBIT DELAY_US QUEUE_KB MTU BYTES POSTED LOSS_PPM REORDER_PPM DEPTH MS SEED [read]\n");
    return 2;
  }
  brdma::test::run(argv);
  return 0;
}
