// transfer_cost - what a packet costs both sides of a connection, in instructions, without sockets: for callgrind.
//   transfer_cost write|send|read BYTES bitmap|standard [LIST]
//   BYTES: of each message, path MTU 4096; LIST: so many are posted at once (16)
// Prints how many packets of data went over; functions cost_... below are what to look at: `budget` does.
#include <cstdio>
#include <cstring>
#include <span>
#include <string>

#include "two_hosts.h"

namespace {

using namespace brdma;  // a program, no header
using namespace brdma::bench_micro;

constexpr std::size_t kPackets = 20'000;
constexpr std::uint32_t kMtu = 4096;

// --- what is counted: the requester's four, the responder's three. noipa: alike as they are, they stay apart ---
[[gnu::noipa]] bool cost_requester_post(Host& host, std::span<const SendRequest> requests, Instant now) {
  std::size_t posted = 0;
  return host.engine->post_send(host.qp, requests, now, posted).ok();
}
[[gnu::noipa]] bool cost_requester_send(Engine& engine, TransmitBuffer& buffer, Transmit& out, Instant now) {
  return engine.poll_transmit(buffer, out, now);
}
[[gnu::noipa]] void cost_requester_hear(Engine& engine, std::span<const Datagram> datagrams, Instant now) {
  for (const Datagram& datagram : datagrams) engine.handle_datagram(datagram, now);
}
[[gnu::noipa]] std::size_t cost_requester_poll(Host& host, std::span<Completion> completions) {
  return host.engine->poll_cq(host.cq, completions);
}
[[gnu::noipa]] void cost_responder_take(Engine& engine, std::span<const Datagram> datagrams, Instant now) {
  for (const Datagram& datagram : datagrams) engine.handle_datagram(datagram, now);
}
[[gnu::noipa]] bool cost_responder_answer(Engine& engine, TransmitBuffer& buffer, Transmit& out, Instant now) {
  return engine.poll_transmit(buffer, out, now);
}
[[gnu::noipa]] std::size_t cost_responder_receive(Host& host, std::span<const ReceiveRequest> receives,
                                                  std::span<Completion> completions, Instant now) {
  for (const ReceiveRequest& receive : receives) (void)host.engine->post_receive(host.qp, receive, now);
  return host.engine->poll_cq(host.cq, completions);
}

class Load {
 public:
  Load(WorkOpcode opcode, std::uint32_t bytes, bool bitmap, std::size_t list)
      : opcode_(opcode), bytes_(bytes), completions_(4096) {
    make(a_, 1, bitmap, false);
    make(b_, 2, bitmap, false);
    connect(a_, b_, PathMtu::k4096, now_);
    connect(b_, a_, PathMtu::k4096, now_);
    from_ = {a_.at(), bytes, a_.key};
    to_ = {b_.at(), bytes, b_.key};
    for (std::size_t i = 0; i < list; ++i) {
      requests_.push_back({.sges = {&from_, 1},
                           .opcode = opcode,
                           .flags = i + 1 == list ? kSendSignaled : 0,
                           .remote_address = b_.at(),
                           .rkey = b_.key});
      receives_.push_back({.sges = {&to_, 1}});
    }
    for (int i = 0; i < 4; ++i) exchange();  // the sides agree on their mode
  }

  std::size_t run() {
    const std::size_t each = (bytes_ + kMtu - 1) / kMtu * requests_.size();
    std::size_t packets = 0;
    for (; packets < kPackets; packets += each) {
      if (opcode_ == WorkOpcode::kSend) cost_responder_receive(b_, receives_, completions_, now_);
      if (!cost_requester_post(a_, requests_, now_)) std::abort();
      std::size_t done = 0;
      for (int rounds = 0; done == 0; ++rounds) {
        if (rounds > 1000) std::abort();
        exchange();
        done = cost_requester_poll(a_, completions_);
      }
      if (completions_[0].status != CompletionStatus::kSuccess) std::abort();
    }
    return packets;
  }

 private:
  void exchange() {
    const auto take_there = [this](Engine& engine, std::span<const Datagram> datagrams) {
      cost_responder_take(engine, datagrams, now_);
    };
    const auto hear = [this](Engine& engine, std::span<const Datagram> datagrams) {
      cost_requester_hear(engine, datagrams, now_);
    };
    drain(a_, wires_, [this](Engine& engine, TransmitBuffer& buffer, Transmit& out) {
      return cost_requester_send(engine, buffer, out, now_);
    });
    deliver(a_, b_, wires_, take_there);
    now_ = now_ + 20_us;
    if (const auto due = b_.engine->next_timeout(); due && *due <= now_) b_.engine->handle_timeout(now_);
    drain(b_, wires_, [this](Engine& engine, TransmitBuffer& buffer, Transmit& out) {
      return cost_responder_answer(engine, buffer, out, now_);
    });
    deliver(b_, a_, wires_, hear);
    now_ = now_ + 20_us;
  }

  WorkOpcode opcode_;
  std::uint32_t bytes_;
  Instant now_ = Instant::from_ns(1'000'000);
  Host a_, b_;
  Sge from_, to_;
  std::vector<SendRequest> requests_;
  std::vector<ReceiveRequest> receives_;
  std::vector<Completion> completions_;
  std::vector<Wire> wires_;
};

int usage() {
  std::fputs("transfer_cost write|send|read BYTES bitmap|standard [LIST]\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return usage();
  const std::string what = argv[1], mode = argv[3];
  const WorkOpcode opcode = what == "write"  ? WorkOpcode::kRdmaWrite
                            : what == "send" ? WorkOpcode::kSend
                                             : WorkOpcode::kRdmaRead;
  if (opcode == WorkOpcode::kRdmaRead && what != "read") return usage();
  const auto bytes = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  const std::size_t list = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 16;
  if (bytes == 0 || bytes > 1u << 20 || list == 0 || list > 1024) return usage();
  Load load{opcode, bytes, mode == "bitmap", list};
  std::printf("%zu packets\n", load.run());
  return 0;
}
