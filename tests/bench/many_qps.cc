// many_qps - what a message costs when a program has many queue pairs: COUNT of them, all used round robin, 64-byte
// WRITEs, at most 64 under way. Prints microseconds to create and to connect one, nanoseconds and CPU time a message,
// resident memory a queue pair after all were used. The other end does nothing but answer.
//   many_qps COUNT MESSAGES [ADDRESS]
// Instructions: callgrind, of this program's function round_robin.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "exchange.h"

namespace {

constexpr std::size_t kUnderWayMax = 64;
constexpr std::uint32_t kBytes = 64;

struct Load {
  ibv_cq* cq;
  ibv_mr* mr;
  bench::Window to;
  const std::vector<ibv_qp*>& queue_pairs;
  std::size_t next = 0;

  void post() {
    ibv_sge sge{.addr = reinterpret_cast<std::uintptr_t>(mr->addr), .length = kBytes, .lkey = mr->lkey};
    ibv_send_wr request{}, *bad = nullptr;
    request.sg_list = &sge;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    request.wr.rdma = {.remote_addr = to.address, .rkey = to.rkey};
    bench::need(ibv_post_send(queue_pairs[next], &request, &bad) == 0, "ibv_post_send");
    if (++next == queue_pairs.size()) next = 0;
  }
};

}  // namespace

// A function of its own, so that callgrind tells its cost with all that it calls.
[[gnu::noinline]] void round_robin(Load& load, std::size_t messages) {
  std::array<ibv_wc, 32> completions{};
  std::size_t posted = 0, done = 0;
  while (done < messages) {
    while (posted < messages && posted - done < kUnderWayMax) {
      load.post();
      ++posted;
    }
    const int n = ibv_poll_cq(load.cq, completions.size(), completions.data());
    bench::need(n >= 0, "ibv_poll_cq");
    for (int i = 0; i < n; ++i) {
      bench::need(completions[static_cast<std::size_t>(i)].status == IBV_WC_SUCCESS, "a WRITE failed");
    }
    done += static_cast<std::size_t>(n);
  }
}

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
  ibv_mr* mr = ibv_reg_mr(device.pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  ibv_cq* cq = ibv_create_cq(device.context, 1024, nullptr, nullptr, 0);
  bench::need(mr != nullptr && cq != nullptr, "memory region or completion queue");
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
    Load load{cq, mr, window, queue_pairs};
    round_robin(load, count + kUnderWayMax);  // each has been used: the peer's word of bitmap mode has come
    load.next = 0;
    const std::uint64_t cpu = bench::cpu_ns(), from = bench::now_ns();
    round_robin(load, messages);
    const std::uint64_t took = bench::now_ns() - from, spent = bench::cpu_ns() - cpu;
    const auto n = static_cast<double>(count), m = static_cast<double>(messages);
    std::printf("queue_pairs %zu create_us %.2f connect_us %.2f message_ns %.1f message_cpu_ns %.1f bytes %.0f\n",
                count, static_cast<double>(created - begin) / 1e3 / n,
                static_cast<double>(connected - created) / 1e3 / n, static_cast<double>(took) / m,
                static_cast<double>(spent) / m, static_cast<double>(bench::resident_bytes() - resident) / n);
    peer.meet();
  } else {
    ibv_wc completion{};
    while (!peer.said_something()) {
      for (int i = 0; i < 1000; ++i) bench::need(ibv_poll_cq(cq, 1, &completion) == 0, "a completion of nothing");
    }
    peer.meet();
  }
  for (ibv_qp* qp : queue_pairs) ibv_destroy_qp(qp);
  return 0;
}
