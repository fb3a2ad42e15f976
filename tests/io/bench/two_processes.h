// tests/io/bench/two_processes.h - a measurement by two processes, as programs on two hosts: forked from the benchmark,
// each in its own network namespace (or both in one, over loopback), joined by a page of shared memory.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

namespace brdma::bench {

struct Exchange {
  std::atomic<std::uint32_t> arrived{0};   // for barrier()
  std::atomic<std::uint32_t> finished{0};  // set by the side that ends the measurement
  std::atomic<std::uint64_t> received{0};  // raw sockets: bytes taken by the receiver
  std::array<std::uint64_t, 32> info[2];   // exchanged by the sides before the barrier
  std::array<double, 16> result{};         // results of the measurement
};

// Both sides come here; sleeps between looks, so that nothing spins.
void barrier(Exchange& exchange, std::uint32_t number);

// Runs `server` and `client` (argument: side 0 / 1) in two child processes with an Exchange in shared memory, each
// bound to a core of its own if `pin`; false: one of them died or `seconds_max` ran out (then they are killed).
bool run_two(const std::function<void(Exchange&)>& server, const std::function<void(Exchange&)>& client,
             unsigned seconds_max, bool pin, Exchange& out);

}  // namespace brdma::bench
