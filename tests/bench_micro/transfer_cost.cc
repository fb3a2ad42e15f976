// transfer_cost - the cost of a packet at both sides of a connection, in instructions, without sockets: for callgrind.
//   transfer_cost write|send|read|turns BYTES bitmap|standard [LIST [QUEUE_PAIRS [MTU [WAY]]]]
//   turns: both sides WRITE, each when the other's has come, with a piggybacked ACK in the reply (ib_write_lat);
//   with the driver's queries to the engine
//   BYTES: of each message; LIST: so many are posted at once (16); MTU: of the path, 4096 or 1024
//   WAY: of turns, microseconds of a packet in flight (0, so that no round trip is judged)
//   QUEUE_PAIRS: the LIST is posted one by one instead, each request to the next of so many, before anything is sent;
//   0: a list
// Prints the number of data packets, and of acknowledgements that came back; functions cost_... below are the ones to
// count: `budget` does.
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS
#endif

#include "two_hosts.h"

namespace {

using namespace brdma;  // a program, no header
using namespace brdma::bench_micro;

constexpr std::size_t kPackets = 20'000;

// --- the counted functions: the requester's four, the responder's three. Similar as they are, they stay separate ---
#if defined(__clang__)
#define BRDMA_COUNTED [[gnu::noinline]]
#else
#define BRDMA_COUNTED [[gnu::noipa]]
#endif
BRDMA_COUNTED bool cost_requester_post(Host& host, std::span<const SendRequest> requests, Instant now) {
  std::size_t posted = 0;
  return host.engine->post_send(host.qp, requests, now, posted).ok();
}
BRDMA_COUNTED bool cost_requester_send(Engine& engine, TransmitBuffer& buffer, Transmit& out, Instant now) {
  return engine.poll_transmit(buffer, out, now);
}
BRDMA_COUNTED void cost_requester_process(Engine& engine, std::span<const Datagram> datagrams, Instant now) {
  for (const Datagram& datagram : datagrams) engine.handle_datagram(datagram, now);
}
// The end of a call of the application: the engine's next deadline.
BRDMA_COUNTED void cost_requester_end(Engine& engine) { (void)engine.next_timeout(); }
BRDMA_COUNTED std::size_t cost_requester_poll(Host& host, std::span<Completion> completions) {
  return host.engine->poll_cq(host.cq, completions);
}
BRDMA_COUNTED void cost_responder_take(Engine& engine, std::span<const Datagram> datagrams, Instant now) {
  for (const Datagram& datagram : datagrams) engine.handle_datagram(datagram, now);
}
BRDMA_COUNTED bool cost_responder_answer(Engine& engine, TransmitBuffer& buffer, Transmit& out, Instant now) {
  return engine.poll_transmit(buffer, out, now);
}
BRDMA_COUNTED std::size_t cost_responder_receive(Host& host, std::span<const ReceiveRequest> receives,
                                                 std::span<Completion> completions, Instant now) {
  for (const ReceiveRequest& receive : receives) (void)host.engine->post_receive(host.qp, receive, now);
  return host.engine->poll_cq(host.cq, completions);
}

// A side's part of a turn, as in io/shard/shard.cc: takes the arrived packets, fetches the completion of its own last
// WRITE, and holds the acknowledgement back for the reply; the reply is posted, leaves (as above), and the deadline is
// read.
void process_turn(Host& host, std::span<const Datagram> datagrams, std::span<Completion> completions, Instant now) {
  for (const Datagram& datagram : datagrams) host.engine->handle_datagram(datagram, now);
  (void)host.engine->poll_cq(host.cq, completions);
  const TransmitInterest level = host.engine->transmit_interest().level;
  if (level != TransmitInterest::kDeferrable || host.engine->has_notifications()) std::abort();
}
bool reply(Host& host, std::span<const SendRequest> requests, Instant now) {
  std::size_t posted = 0;
  return host.engine->post_send(host.qp, requests, now, posted).ok();
}
BRDMA_COUNTED void cost_requester_turn(Host& host, std::span<const Datagram> datagrams,
                                       std::span<Completion> completions, Instant now) {
  process_turn(host, datagrams, completions, now);
}
BRDMA_COUNTED void cost_responder_turn(Host& host, std::span<const Datagram> datagrams,
                                       std::span<Completion> completions, Instant now) {
  process_turn(host, datagrams, completions, now);
}
BRDMA_COUNTED bool cost_requester_reply(Host& host, std::span<const SendRequest> requests, Instant now) {
  return reply(host, requests, now);
}
BRDMA_COUNTED bool cost_responder_reply(Host& host, std::span<const SendRequest> requests, Instant now) {
  return reply(host, requests, now);
}
BRDMA_COUNTED void cost_responder_end(Engine& engine) { (void)engine.next_timeout(); }

class Load {
 public:
  // `queue_pairs`: 0: one, and lists.
  Load(WorkOpcode opcode, std::uint32_t bytes, bool bitmap, std::size_t list, std::size_t queue_pairs, PathMtu mtu)
      : opcode_(opcode), bytes_(bytes), mtu_(mtu), one_by_one_(queue_pairs > 0), completions_(4096) {
    make(a_, 1, bitmap, false);
    make(b_, 2, bitmap, false);
    while (pairs_.size() < std::max<std::size_t>(queue_pairs, 1)) {
      if (!pairs_.empty()) add_queue_pair(a_), add_queue_pair(b_);
      connect(a_, b_, mtu, now_);
      connect(b_, a_, mtu, now_);
      pairs_.push_back({a_.qp, b_.qp});
    }
    from_ = {a_.at(), bytes, a_.key};
    to_ = {b_.at(), bytes, b_.key};
    for (std::size_t i = 0; i < list; ++i) {
      requests_.push_back({.sges = {&from_, 1},
                           .opcode = opcode,
                           .flags = one_by_one_ || i + 1 == list ? kSendSignaled : 0,
                           .remote_address = b_.at(),
                           .rkey = b_.key});
      receives_.push_back({.sges = {&to_, 1}});
    }
    for (int i = 0; i < 4; ++i) exchange();  // the sides agree on their mode
  }

  [[nodiscard]] std::uint64_t acknowledgements() const { return a_.statistics.get(Counter::kAcksReceived); }

  // Returns the number of data packets of each side.
  std::size_t take_turns(std::size_t wanted, Duration way) {
    from_.length = bytes_;
    const Sge back{b_.at(), bytes_, b_.key};
    SendRequest reply = requests_[0];
    reply.sges = {&back, 1};
    reply.remote_address = a_.at();
    reply.rkey = a_.key;
    const auto process = [this](Engine&, std::span<const Datagram> datagrams) {
      cost_requester_turn(a_, datagrams, completions_, now_);
    };
    const auto process_there = [this](Engine&, std::span<const Datagram> datagrams) {
      cost_responder_turn(b_, datagrams, completions_, now_);
    };
    for (std::size_t i = 0; i < wanted; ++i) {
      if (!cost_requester_reply(a_, {requests_.data(), 1}, now_)) std::abort();
      drain(a_, wires_, [this](Engine& engine, TransmitBuffer& buffer, Transmit& out) {
        return cost_requester_send(engine, buffer, out, now_);
      });
      cost_requester_end(*a_.engine);
      now_ = now_ + way;
      deliver(a_, b_, wires_, process_there);
      now_ = now_ + 4_us;
      if (!cost_responder_reply(b_, {&reply, 1}, now_)) std::abort();
      drain(b_, wires_, [this](Engine& engine, TransmitBuffer& buffer, Transmit& out) {
        return cost_responder_answer(engine, buffer, out, now_);
      });
      cost_responder_end(*b_.engine);
      now_ = now_ + way;
      deliver(b_, a_, wires_, process);
      now_ = now_ + 4_us;
    }
    return wanted;
  }

  // Returns the number of data packets.
  std::size_t run(std::size_t wanted) {
    const std::uint32_t mtu = mtu_bytes(mtu_);
    const std::size_t each = (bytes_ + mtu - 1) / mtu * requests_.size();
    const std::size_t signaled = one_by_one_ ? requests_.size() : 1;
    std::size_t packets = 0;
    for (; packets < wanted; packets += each) {
      one_by_one_ ? post_one_by_one() : post_list();
      std::size_t done = 0;
      for (int rounds = 0; done < signaled; ++rounds) {
        if (rounds > 1000) std::abort();
        exchange();
        const std::size_t more = cost_requester_poll(a_, completions_);
        if (more > 0 && completions_[0].status != CompletionStatus::kSuccess) std::abort();
        done += more;
      }
    }
    return packets;
  }

 private:
  void post_list() {
    if (opcode_ == WorkOpcode::kSend) cost_responder_receive(b_, receives_, completions_, now_);
    if (!cost_requester_post(a_, requests_, now_)) std::abort();
  }
  void post_one_by_one() {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      take_next();
      if (opcode_ == WorkOpcode::kSend) cost_responder_receive(b_, {&receives_[i], 1}, completions_, now_);
      if (!cost_requester_post(a_, {&requests_[i], 1}, now_)) std::abort();
    }
  }
  void take_next() {
    std::tie(a_.qp, b_.qp) = pairs_[next_];
    if (++next_ == pairs_.size()) next_ = 0;
  }

  void exchange() {
    const auto take_there = [this](Engine& engine, std::span<const Datagram> datagrams) {
      cost_responder_take(engine, datagrams, now_);
    };
    const auto process = [this](Engine& engine, std::span<const Datagram> datagrams) {
      cost_requester_process(engine, datagrams, now_);
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
    deliver(b_, a_, wires_, process);
    if (one_by_one_) cost_requester_end(*a_.engine);
    now_ = now_ + 20_us;
  }

  WorkOpcode opcode_;
  std::uint32_t bytes_;
  PathMtu mtu_;
  bool one_by_one_;
  Instant now_ = Instant::from_ns(1'000'000);
  Host a_, b_;
  std::vector<std::pair<QueuePair*, QueuePair*>> pairs_;
  std::size_t next_ = 0;
  Sge from_, to_;
  std::vector<SendRequest> requests_;
  std::vector<ReceiveRequest> receives_;
  std::vector<Completion> completions_;
  std::vector<Wire> wires_;
};

int usage() {
  std::fputs("transfer_cost write|send|read|turns BYTES bitmap|standard [LIST [QUEUE_PAIRS [MTU [WAY]]]]\n", stderr);
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return usage();
  const std::string what = argv[1], mode = argv[3];
  const bool turns = what == "turns";
  const WorkOpcode opcode = turns || what == "write" ? WorkOpcode::kRdmaWrite
                            : what == "send"         ? WorkOpcode::kSend
                                                     : WorkOpcode::kRdmaRead;
  if (opcode == WorkOpcode::kRdmaRead && what != "read") return usage();
  const auto bytes = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  const std::size_t list = argc > 4 ? std::strtoul(argv[4], nullptr, 10) : 16;
  if (bytes == 0 || bytes > 1u << 20 || list == 0 || list > 1024) return usage();
  const std::size_t queue_pairs = argc > 5 ? std::strtoul(argv[5], nullptr, 10) : 0;
  if (queue_pairs > 65'000) return usage();
  const std::string mtu = argc > 6 ? argv[6] : "4096";
  if (mtu != "4096" && mtu != "1024") return usage();
  const Duration way = 1_us * (argc > 7 ? static_cast<std::int64_t>(std::strtoul(argv[7], nullptr, 10) % 1000) : 0);
  Load load{opcode, bytes, mode == "bitmap", list, queue_pairs, mtu == "4096" ? PathMtu::k4096 : PathMtu::k1024};
  if (queue_pairs > 0) {  // the cost of the first use of each does not count
    load.run(queue_pairs);
    CALLGRIND_ZERO_STATS;
  }
  if (turns) {
    load.run(1);
    load.take_turns(1, way);  // the reply's first has no acknowledgement to carry
    CALLGRIND_ZERO_STATS;
  }
  const std::uint64_t acknowledgements_before = load.acknowledgements();
  const std::size_t packets = turns ? load.take_turns(kPackets, way) : load.run(kPackets);
  std::printf("%zu packets %llu acknowledgements\n", packets,
              static_cast<unsigned long long>(load.acknowledgements() - acknowledgements_before));
  return 0;
}
