// threads - throughput of several threads, each with a queue pair and a completion queue of its own in one context:
// WRITEs of BYTES for SECONDS, posted singly, up to 64 in flight (16 if they are larger than a page). Prints messages a
// second of all threads together. The other end sleeps: the library responds there.
//   threads PORT THREADS BYTES SECONDS [ADDRESS]          one program a thread: THREADS 1, several ports
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "exchange.h"

namespace {

struct Worker {
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  std::uint64_t done = 0;
};

void work(Worker& worker, const bench::Request& request, std::uint64_t nanoseconds, std::barrier<>& start) {
  const std::size_t under_way_max = request.bytes > 4096 ? 16 : 64;
  start.arrive_and_wait();
  const std::uint64_t until = bench::now_ns() + nanoseconds;
  std::size_t under_way = 0;
  while (bench::now_ns() < until) {
    for (; under_way < under_way_max; ++under_way) bench::post(worker.qp, request);
    const std::size_t n = bench::poll(worker.cq);
    under_way -= n;
    worker.done += n;
  }
  while (under_way > 0) under_way -= bench::poll(worker.cq);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) {
    std::fputs("threads PORT THREADS BYTES SECONDS [ADDRESS]\n", stderr);
    return 2;
  }
  const auto port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  const std::size_t count = std::strtoul(argv[2], nullptr, 10);
  const auto bytes = static_cast<std::uint32_t>(std::strtoul(argv[3], nullptr, 10));
  const double seconds = std::atof(argv[4]);
  const bench::Peer peer = argc > 5 ? bench::Peer::call(argv[5], port) : bench::Peer::serve(port);
  const bench::Device device = bench::open_device();
  std::vector<std::uint8_t> memory(bytes);
  const ibv_mr* mr = bench::register_memory(device, memory);
  std::vector<Worker> workers(count);
  std::vector<ibv_qp*> queue_pairs;
  for (Worker& worker : workers) {
    worker.cq = ibv_create_cq(device.context, 256, nullptr, nullptr, 0);
    bench::need(worker.cq != nullptr, "ibv_create_cq");
    worker.qp = bench::create_queue_pair(device, worker.cq, 128);
    queue_pairs.push_back(worker.qp);
  }
  bench::connect_all(device, peer, queue_pairs);
  const bench::Request request{.bytes = bytes,
                               .local = reinterpret_cast<std::uintptr_t>(mr->addr),
                               .lkey = mr->lkey,
                               .to = bench::exchange_windows(peer, mr)};
  if (argc > 5) {
    std::barrier start(static_cast<std::ptrdiff_t>(count));
    std::vector<std::thread> threads;
    for (Worker& worker : workers) {
      threads.emplace_back([&] { work(worker, request, static_cast<std::uint64_t>(seconds * 1e9), start); });
    }
    std::uint64_t done = 0;
    for (std::size_t i = 0; i < count; ++i) {
      threads[i].join();
      done += workers[i].done;
    }
    std::printf("messages_per_s %.0f\n", static_cast<double>(done) / seconds);
  }
  peer.meet();
  for (ibv_qp* qp : queue_pairs) ibv_destroy_qp(qp);
  return 0;
}
