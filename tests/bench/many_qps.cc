// many_qps - cost of a message in a program with many queue pairs: COUNT of them, all used round robin, 64-byte WRITEs,
// at most 64 in flight. Prints microseconds to create and to connect one, nanoseconds and CPU time a message, resident
// memory a queue pair after all were used, and the number of messages in all. The other end only responds.
//   many_qps COUNT MESSAGES [ADDRESS]
// Instructions: valgrind --tool=callgrind --toggle-collect='round_robin*'.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "exchange.h"

namespace {

constexpr std::size_t kUnderWayMax = 64;
constexpr std::uint32_t kBytes = 64;

struct Load {
  ibv_cq* cq;
  bench::Request request;
  const std::vector<ibv_qp*>& queue_pairs;
  std::size_t next = 0;
};

void drive(Load& load, std::size_t messages) {
  std::size_t posted = 0, done = 0;
  while (done < messages) {
    while (posted < messages && posted - done < kUnderWayMax) {
      bench::post(load.queue_pairs[load.next], load.request);
      if (++load.next == load.queue_pairs.size()) load.next = 0;
      ++posted;
    }
    done += bench::poll(load.cq);
  }
}

}  // namespace

// The measured part: a function of its own, so that callgrind can attribute its cost with its callees.
[[gnu::noinline]] void round_robin(Load& load, std::size_t messages) { drive(load, messages); }

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("many_qps COUNT MESSAGES [ADDRESS]\n", stderr);
    return 2;
  }
  const std::size_t count = std::max(std::strtoul(argv[1], nullptr, 10), 1UL),
                    messages = std::strtoul(argv[2], nullptr, 10);
  const bench::Peer peer = argc > 3 ? bench::Peer::call(argv[3]) : bench::Peer::serve();
  const bench::Device device = bench::open_device();
  std::vector<std::uint8_t> memory(4096);
  ibv_mr* mr = bench::register_memory(device, memory);
  ibv_cq* cq = ibv_create_cq(device.context, 1024, nullptr, nullptr, 0);
  bench::need(cq != nullptr, "ibv_create_cq");
  const long resident = bench::resident_bytes();
  const std::uint64_t begin = bench::now_ns();
  std::vector<ibv_qp*> queue_pairs;
  const auto depth = static_cast<std::uint32_t>(kUnderWayMax / count + 16);
  while (queue_pairs.size() < count) queue_pairs.push_back(bench::create_queue_pair(device, cq, depth));
  const std::uint64_t created = bench::now_ns();
  bench::connect_all(device, peer, queue_pairs);
  const std::uint64_t connected = bench::now_ns();
  const bench::Window window = bench::exchange_windows(peer, mr);
  if (argc > 3) {
    Load load{.cq = cq,
              .request = {.bytes = kBytes,
                          .local = reinterpret_cast<std::uintptr_t>(mr->addr),
                          .lkey = mr->lkey,
                          .to = window},
              .queue_pairs = queue_pairs};
    drive(load, count + kUnderWayMax);  // each has been used: the peer's agreement on bitmap mode has come
    load.next = 0;
    const std::uint64_t cpu = bench::cpu_ns(), from = bench::now_ns();
    round_robin(load, messages);
    const std::uint64_t took = bench::now_ns() - from, spent = bench::cpu_ns() - cpu;
    const auto n = static_cast<double>(count), m = static_cast<double>(messages);
    std::printf(
        "queue_pairs %zu create_us %.2f connect_us %.2f message_ns %.1f message_cpu_ns %.1f bytes %.0f "
        "all_messages %zu\n",
        count, static_cast<double>(created - begin) / 1e3 / n, static_cast<double>(connected - created) / 1e3 / n,
        static_cast<double>(took) / m, static_cast<double>(spent) / m,
        static_cast<double>(bench::resident_bytes() - resident) / n, count + kUnderWayMax + messages);
    peer.meet();
  } else {
    while (!peer.said_something()) {
      for (int i = 0; i < 1000; ++i) (void)bench::poll(cq);
    }
    peer.meet();
  }
  for (ibv_qp* qp : queue_pairs) ibv_destroy_qp(qp);
  return 0;
}
