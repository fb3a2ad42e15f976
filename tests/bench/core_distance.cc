// core_distance - the time of a cache line between two processors, one way. On a virtual machine it changes by the
// second, as the host moves the virtual processors: 35 to 50 ns while they share a cache, 190 to 220 otherwise (AMD
// EPYC). Everything that passes data between two programs then runs at half its speed or less, and a benchmark without
// this check compares a row of one state with a row of the other.
//   core_distance          -> core_distance_ns N, between the first two that it may run on; 0 where there is but one
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr unsigned kExchanges = 100;  // of a burst, there and back: some 10 to 50 us
constexpr std::size_t kBursts = 41;
constexpr std::chrono::milliseconds kPatience{200};  // in all: a program without a core of its own cannot be measured

alignas(128) std::atomic<unsigned> line{0};

void stay_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// Adds one to each odd value that it finds, until stopped.
void answer(int processor, const std::atomic<bool>& stop) {
  stay_on(processor);
  for (unsigned next = 1; !stop.load(std::memory_order_relaxed);) {
    if (line.load(std::memory_order_acquire) != next) continue;
    line.store(next + 1, std::memory_order_release);
    next += 2;
  }
}

// One way, ns: the median of the bursts, so that one with a lost core does not count.
double distance(int processor) {
  line = 0;
  std::atomic<bool> stop{false};
  std::thread peer{[&] { answer(processor, stop); }};
  std::vector<double> bursts;
  unsigned value = 0;
  for (const auto until = Clock::now() + kPatience; bursts.size() < kBursts && Clock::now() < until;) {
    const auto begin = Clock::now();
    for (unsigned i = 0; i < kExchanges; ++i) {
      line.store(++value, std::memory_order_release);
      for (++value; line.load(std::memory_order_acquire) != value;) {
      }
    }
    bursts.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / kExchanges / 2);
  }
  stop = true;
  peer.join();
  std::nth_element(bursts.begin(), bursts.begin() + static_cast<std::ptrdiff_t>(bursts.size() / 2), bursts.end());
  return bursts[bursts.size() / 2];
}

}  // namespace

int main() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    std::perror("core_distance: sched_getaffinity");
    return 1;
  }
  std::vector<int> processors;
  for (int each = 0; each < CPU_SETSIZE && processors.size() < 2; ++each) {
    if (CPU_ISSET(each, &allowed)) processors.push_back(each);
  }
  if (processors.size() < 2) {
    std::puts("core_distance_ns 0");  // one processor: nothing passes between two
    return 0;
  }
  stay_on(processors[0]);
  std::printf("core_distance_ns %.0f\n", distance(processors[1]));
  return 0;
}
