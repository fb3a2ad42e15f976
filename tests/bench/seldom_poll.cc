// seldom_poll - bandwidth of a peer's READs of 1 MiB from a program that polls all the time (poll), computes and polls
// ten times a second (compute), or sleeps (sleep). Prints the client's bandwidth, and how much the server computed
// meanwhile.
//   seldom_poll poll|compute|sleep SECONDS [ADDRESS]
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "exchange.h"

namespace {

constexpr std::uint32_t kBytes = 1 << 20;
constexpr std::size_t kUnderWay = 4;
constexpr std::uint64_t kPollEveryNs = 100'000'000;

void client(const bench::Peer& peer, ibv_qp* qp, ibv_cq* cq, const bench::Request& request, double seconds) {
  const std::uint64_t begin = bench::now_ns(), until = begin + static_cast<std::uint64_t>(seconds * 1e9);
  std::size_t posted = 0, done = 0;
  while (done < posted || bench::now_ns() < until) {
    while (posted - done < kUnderWay && bench::now_ns() < until) {
      bench::post(qp, request);
      ++posted;
    }
    done += bench::poll(cq);
  }
  const auto took = static_cast<double>(bench::now_ns() - begin);
  std::printf("gbit_per_s %.3f\n", static_cast<double>(done) * kBytes * 8 / took);
  peer.meet();
}

void server(const bench::Peer& peer, std::string_view mode, ibv_cq* cq) {
  const std::uint64_t begin = bench::now_ns(), cpu = bench::cpu_ns();
  std::uint64_t rounds = 0;
  volatile std::uint64_t value = 1;
  if (mode != "sleep") {
    while (!peer.said_something()) {
      const std::uint64_t until = bench::now_ns() + (mode == "compute" ? kPollEveryNs : 0);
      while (bench::now_ns() < until) {  // the program's own work
        for (int i = 0; i < 1000; ++i) value = value * 6364136223846793005 + 1;
        ++rounds;
      }
      for (int i = 0; i < (mode == "poll" ? 1000 : 1); ++i) (void)bench::poll(cq);
    }
  }
  peer.meet();
  const auto took = static_cast<double>(bench::now_ns() - begin);
  std::printf("thousands_computed_per_s %.0f cpu_share %.2f\n", static_cast<double>(rounds) * 1e9 / took,
              static_cast<double>(bench::cpu_ns() - cpu) / took);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("seldom_poll poll|compute|sleep SECONDS [ADDRESS]\n", stderr);
    return 2;
  }
  const bench::Peer peer = argc > 3 ? bench::Peer::call(argv[3]) : bench::Peer::serve();
  const bench::Device device = bench::open_device();
  std::vector<std::uint8_t> memory(kBytes);
  const ibv_mr* mr = bench::register_memory(device, memory);
  ibv_cq* cq = ibv_create_cq(device.context, 256, nullptr, nullptr, 0);
  bench::need(cq != nullptr, "ibv_create_cq");
  ibv_qp* qp = bench::create_queue_pair(device, cq, 16);
  bench::connect_all(device, peer, {qp});
  const bench::Request request{.opcode = IBV_WR_RDMA_READ,
                               .bytes = kBytes,
                               .local = reinterpret_cast<std::uintptr_t>(mr->addr),
                               .lkey = mr->lkey,
                               .to = bench::exchange_windows(peer, mr)};
  if (argc > 3) {
    client(peer, qp, cq, request, std::atof(argv[2]));
  } else {
    server(peer, argv[1], cq);
  }
  ibv_destroy_qp(qp);
  return 0;
}
