// event_pingpong - request and reply between two programs that sleep, over TCP and over verbs: SENDs, and a completion
// channel. A reply counts when the program has it, so the two do the same work.
//   event_pingpong HOW BYTES COUNT [ADDRESS]     client's round trip in us: median, 99th percentile; its CPU time,
//   sleeps and system calls a turn, of all its threads. Without the right to count system calls (root): -1
//     tcp        epoll_wait, recv, send
//     epoll      epoll_wait on the channel, which does not block: ibv_get_cq_event until there is none, arm, poll
//     blocking   ibv_get_cq_event, arm, poll
#include <fcntl.h>
#include <linux/perf_event.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "exchange.h"

namespace {

constexpr int kPatienceMs = 10'000;

int watching(int fd) {
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event{};
  event.events = EPOLLIN;
  bench::need(epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0, "epoll_ctl");
  return epoll;
}

void sleep_on(int epoll) {
  epoll_event event{};
  bench::need(epoll_wait(epoll, &event, 1, kPatienceMs) == 1, "an answer");
}

class Tcp {
 public:
  Tcp(const bench::Peer& peer, std::size_t bytes) : peer_(peer), memory_(bytes), epoll_(watching(peer.descriptor())) {}
  void send() { peer_.send(memory_.data(), memory_.size()); }
  void receive() {
    sleep_on(epoll_);
    peer_.receive(memory_.data(), memory_.size());
  }

 private:
  const bench::Peer& peer_;
  std::vector<std::uint8_t> memory_;
  int epoll_;
};

class Verbs {
 public:
  Verbs(const bench::Peer& peer, std::size_t bytes, bool blocking)
      : peer_(peer),
        device_(bench::open_device()),
        memory_(2 * bytes),
        mr_(bench::register_memory(device_, memory_)),
        channel_(ibv_create_comp_channel(device_.context)) {
    bench::need(channel_ != nullptr, "ibv_create_comp_channel");
    cq_ = ibv_create_cq(device_.context, 256, nullptr, channel_, 0);
    bench::need(cq_ != nullptr, "ibv_create_cq");
    qp_ = bench::create_queue_pair(device_, cq_, 128, kReceives);
    if (!blocking) {
      bench::need(fcntl(channel_->fd, F_SETFL, O_NONBLOCK) == 0, "fcntl");
      epoll_ = watching(channel_->fd);
    }
    bench::connect_all(device_, peer, {qp_});
    for (int i = 0; i < kReceives; ++i) post_receive();
    bench::need(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
    peer.meet();
  }
  ~Verbs() {
    peer_.meet();  // a lost last reply is retransmitted as long as there is a queue pair
    ibv_ack_cq_events(cq_, events_);
    ibv_destroy_qp(qp_);
    ibv_destroy_cq(cq_);
    ibv_destroy_comp_channel(channel_);
  }
  Verbs(const Verbs&) = delete;
  Verbs& operator=(const Verbs&) = delete;

  void send() {
    const bool signaled = ++sent_ % kSignaledEvery == 0;
    bench::post(qp_,
                {.opcode = IBV_WR_SEND, .bytes = bytes(), .local = address(), .lkey = mr_->lkey, .signaled = signaled});
  }
  void receive() {
    while (received_ == 0) {
      if (epoll_ >= 0) sleep_on(epoll_);
      take_events();
      bench::need(ibv_req_notify_cq(cq_, 0) == 0, "ibv_req_notify_cq");
      take_completions();
    }
    --received_;
  }

 private:
  static constexpr int kReceives = 16;
  static constexpr unsigned kSignaledEvery = 32;  // as in programs for which a reply suffices
  [[nodiscard]] std::uint32_t bytes() const { return static_cast<std::uint32_t>(memory_.size() / 2); }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory_.data()); }

  void post_receive() {
    ibv_sge sge{.addr = address() + bytes(), .length = bytes(), .lkey = mr_->lkey};
    ibv_recv_wr request{}, *bad = nullptr;
    request.sg_list = &sge;
    request.num_sge = 1;
    bench::need(ibv_post_recv(qp_, &request, &bad) == 0, "ibv_post_recv");
  }
  void take_events() {
    ibv_cq* cq = nullptr;
    void* user = nullptr;
    if (epoll_ < 0) {
      bench::need(ibv_get_cq_event(channel_, &cq, &user) == 0, "ibv_get_cq_event");
      ++events_;
      return;
    }
    while (ibv_get_cq_event(channel_, &cq, &user) == 0) ++events_;
    bench::need(errno == EAGAIN, "ibv_get_cq_event");
  }
  void take_completions() {
    std::array<ibv_wc, 16> completions;
    for (int got; (got = ibv_poll_cq(cq_, completions.size(), completions.data())) > 0;) {
      for (const ibv_wc& each : std::span(completions).first(static_cast<std::size_t>(got))) {
        bench::need(each.status == IBV_WC_SUCCESS, "a completion");
        if (each.opcode != IBV_WC_RECV) continue;
        ++received_;
        post_receive();
      }
    }
  }

  const bench::Peer& peer_;
  bench::Device device_;
  std::vector<std::uint8_t> memory_;
  ibv_mr* mr_;
  ibv_comp_channel* channel_;
  ibv_cq* cq_;
  ibv_qp* qp_;
  int epoll_ = -1;
  int received_ = 0;
  unsigned sent_ = 0;
  unsigned events_ = 0;
};

// System calls of this thread, and of the threads that it makes after this.
class SystemCalls {
 public:
  SystemCalls() {
    perf_event_attr wanted{};
    wanted.type = PERF_TYPE_TRACEPOINT;
    wanted.size = sizeof(wanted);
    wanted.inherit = 1;
    std::ifstream{"/sys/kernel/tracing/events/raw_syscalls/sys_enter/id"} >> wanted.config;
    if (wanted.config != 0)
      fd_ = static_cast<int>(syscall(SYS_perf_event_open, &wanted, 0, -1, -1, PERF_FLAG_FD_CLOEXEC));
  }
  ~SystemCalls() {
    if (fd_ >= 0) close(fd_);
  }
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;
  // None: no right to count.
  [[nodiscard]] std::optional<std::uint64_t> count() const {
    std::uint64_t count = 0;
    if (fd_ < 0 || read(fd_, &count, sizeof(count)) != sizeof(count)) return std::nullopt;
    return count;
  }

 private:
  int fd_ = -1;
};

long sleeps(int of) {
  rusage usage{};
  bench::need(getrusage(of, &usage) == 0, "getrusage");
  return usage.ru_nvcsw;
}

template <class End>
void play(const SystemCalls& calls, End end, std::size_t count, bool client) {
  std::vector<double> turns;
  const auto called = calls.count();
  const std::uint64_t cpu = bench::cpu_ns();
  const long slept = sleeps(RUSAGE_SELF), slept_itself = sleeps(RUSAGE_THREAD);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t begin = bench::now_ns();
    if (client) end.send();
    end.receive();
    if (!client) end.send();
    turns.push_back(static_cast<double>(bench::now_ns() - begin) / 1e3);
  }
  const auto called_then = calls.count();
  const double cpu_us = static_cast<double>(bench::cpu_ns() - cpu) / 1e3 / static_cast<double>(count);
  std::sort(turns.begin(), turns.end());
  const double slept_a_turn = static_cast<double>(sleeps(RUSAGE_SELF) - slept) / static_cast<double>(count);
  const double itself = static_cast<double>(sleeps(RUSAGE_THREAD) - slept_itself) / static_cast<double>(count);
  const double calls_a_turn =
      called && called_then ? static_cast<double>(*called_then - *called) / static_cast<double>(count) : -1;
  std::printf("median_us %.2f p99_us %.2f cpu_us %.2f sleeps %.2f its_own %.2f calls %.2f\n", turns[count / 2],
              turns[count * 99 / 100], cpu_us, slept_a_turn, itself, calls_a_turn);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "";
  const bool client = argc > 4;
  const auto bytes = argc > 3 ? std::strtoul(argv[2], nullptr, 10) : 0,
             count = argc > 3 ? std::strtoul(argv[3], nullptr, 10) : 0;
  if (bytes == 0 || count == 0 || (how != "tcp" && how != "epoll" && how != "blocking")) {
    std::fputs("event_pingpong tcp|epoll|blocking BYTES COUNT [ADDRESS]\n", stderr);
    return 2;
  }
  const SystemCalls calls;
  const bench::Peer peer = client ? bench::Peer::call(argv[4]) : bench::Peer::serve();
  if (how == "tcp") {
    play<Tcp>(calls, {peer, bytes}, count, client);
  } else {
    play(calls, Verbs(peer, bytes, how == "blocking"), count, client);
  }
  return 0;
}
