#include "rounds.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

constexpr std::uint8_t kGuard = 0xA5;
constexpr std::size_t kGuardBytes = 32;

enum class Kind { kSend, kWritePoll, kWriteImm, kRead, kAtomic, kMixed, kCount };

// One operation of a round. `slot` is its place in the arena, the same offset on both sides; slots of a round do not
// overlap, each has guard bytes before and behind.
struct Op {
  ibv_wr_opcode opcode = IBV_WR_SEND;
  std::size_t slot = 0;
  std::uint32_t size = 0;
  std::uint32_t imm = 0;
  bool signaled = true;
  unsigned sges = 1;
  std::uint64_t operand = 0, swap = 0;  // atomics
};

struct Round {
  Kind kind{};
  bool client_requests = true;
  std::vector<Op> ops;
};

// splitmix64: both sides draw the same script.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }

 private:
  std::uint64_t state_;
};

std::uint8_t pattern(std::uint64_t seed, unsigned round, std::size_t op, std::size_t at) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15u + round * 0xC2B2AE3D27D4EB4Fu + op * 0x165667B19E3779F9u + at;
  x ^= x >> 29;
  x *= 0xBF58476D1CE4E5B9u;
  return static_cast<std::uint8_t>(x >> 56);
}

std::uint32_t draw_size(Draw& draw, unsigned max) {
  switch (draw.below(6)) {
    case 0:
      return static_cast<std::uint32_t>(draw.below(9));
    case 1:
      return static_cast<std::uint32_t>(draw.below(300));
    case 2:
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(max, 1024u << draw.below(4)) - draw.below(2));
    case 3:
      return static_cast<std::uint32_t>(draw.below(std::min(max, 20'000u) + 1));
    default:
      return static_cast<std::uint32_t>(draw.below(max + 1));
  }
}

ibv_wr_opcode draw_opcode(Draw& draw, Kind kind) {
  switch (kind) {
    case Kind::kSend:
      return draw.below(2) ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
    case Kind::kWritePoll:
      return IBV_WR_RDMA_WRITE;
    case Kind::kWriteImm:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Kind::kRead:
      return IBV_WR_RDMA_READ;
    case Kind::kAtomic:
      return draw.below(2) ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
    default: {
      static constexpr std::array all{
          IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,        IBV_WR_RDMA_WRITE,        IBV_WR_RDMA_WRITE_WITH_IMM,
          IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
      return all[draw.below(all.size())];
    }
  }
}

bool is_atomic(const Op& op) {
  return op.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || op.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}
bool consumes_receive(const Op& op) {
  return op.opcode == IBV_WR_SEND || op.opcode == IBV_WR_SEND_WITH_IMM || op.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool has_imm(const Op& op) { return op.opcode == IBV_WR_SEND_WITH_IMM || op.opcode == IBV_WR_RDMA_WRITE_WITH_IMM; }

Round draw_round(Draw& draw, const Options& options) {
  Round round;
  round.kind = static_cast<Kind>(draw.below(static_cast<std::uint64_t>(Kind::kCount)));
  round.client_requests = draw.below(2) != 0;
  const std::size_t count = 1 + draw.below(Endpoint::kDepth / 2);
  std::size_t at = kGuardBytes;
  for (std::size_t i = 0; i < count; ++i) {
    Op op;
    op.opcode = draw_opcode(draw, round.kind);
    op.size = is_atomic(op) ? 8 : draw_size(draw, options.size_max);
    if (round.kind == Kind::kWritePoll) op.size = std::max(op.size, 1u);
    op.imm = static_cast<std::uint32_t>(draw.next());
    op.signaled = draw.below(3) != 0 || i + 1 == count;
    op.sges = is_atomic(op) ? 1 : static_cast<unsigned>(1 + draw.below(4));
    op.operand = draw.next();
    op.swap = draw.next();
    op.slot = at = (at + 7) & ~std::size_t{7};
    at += op.size + kGuardBytes;
    round.ops.push_back(op);
  }
  if (at > Endpoint::kArenaBytes) throw std::runtime_error("the arena is too small for -S");
  return round;
}

// Splits a slot over up to `pieces` scatter elements of uneven length.
std::vector<ibv_sge> scatter(Endpoint& endpoint, const Op& op, unsigned pieces) {
  std::vector<ibv_sge> sges;
  std::uint32_t left = op.size;
  std::uint64_t at = reinterpret_cast<std::uintptr_t>(endpoint.arena() + op.slot);
  for (unsigned i = 0; i < pieces && left > 0; ++i) {
    const std::uint32_t length = i + 1 == pieces ? left : std::max(1u, left / (pieces - i + 1));
    sges.push_back({at, length, endpoint.lkey()});
    at += length;
    left -= length;
  }
  return sges;
}

class RoundRunner {
 public:
  RoundRunner(const Options& options, Endpoint& endpoint, ControlChannel& control, unsigned number, const Round& round)
      : options_(options), endpoint_(endpoint), control_(control), number_(number), round_(round) {}

  void run() {
    const bool requester = round_.client_requests == !options_.address.empty();
    prepare(requester);
    if (!requester) post_receives();
    control_.meet(2 * number_);
    if (requester) {
      request();
    } else {
      respond();
    }
    control_.meet(2 * number_ + 1);
    if (!requester) check_after();
    check_guards();
  }

 private:
  [[noreturn]] void fail(const std::string& what, std::size_t op) const {
    throw std::runtime_error("round " + std::to_string(number_) + " operation " + std::to_string(op) + " (opcode " +
                             std::to_string(round_.ops[op].opcode) + ", " + std::to_string(round_.ops[op].size) +
                             " bytes): " + what);
  }

  // The sender's bytes: the requester's for SEND and WRITE, the responder's for READ.
  void prepare(bool requester) {
    std::uint8_t* arena = endpoint_.arena();
    const std::size_t end = round_.ops.back().slot + round_.ops.back().size + kGuardBytes;
    std::memset(arena, kGuard, end);
    for (std::size_t i = 0; i < round_.ops.size(); ++i) {
      const Op& op = round_.ops[i];
      const bool fill = (op.opcode == IBV_WR_RDMA_READ || is_atomic(op)) ? !requester : requester;
      if (fill) {
        for (std::size_t at = 0; at < op.size; ++at) arena[op.slot + at] = byte(i, at);
      } else {
        std::memset(arena + op.slot, 0, op.size);
      }
    }
  }

  // The last byte of a polled WRITE must differ from the zero that was there.
  [[nodiscard]] std::uint8_t byte(std::size_t op, std::size_t at) const {
    const std::uint8_t value = pattern(options_.seed, number_, op, at);
    return at + 1 == round_.ops[op].size ? static_cast<std::uint8_t>(value | 1) : value;
  }

  void check_bytes(std::size_t i) const {
    const Op& op = round_.ops[i];
    for (std::size_t at = 0; at < op.size; ++at) {
      const std::uint8_t is = endpoint_.arena()[op.slot + at];
      if (is != byte(i, at)) {
        fail("byte " + std::to_string(at) + " is " + std::to_string(is) + ", not " + std::to_string(byte(i, at)), i);
      }
    }
  }

  void post_receives() {
    for (std::size_t i = 0; i < round_.ops.size(); ++i) {
      const Op& op = round_.ops[i];
      if (!consumes_receive(op)) continue;
      std::vector<ibv_sge> sges;
      if (op.opcode != IBV_WR_RDMA_WRITE_WITH_IMM) sges = scatter(endpoint_, op, 1 + (op.sges + 1) % 4);
      endpoint_.post_receive(i, sges);
    }
  }

  void request() {
    for (std::size_t i = 0; i < round_.ops.size(); ++i) post(i);
    std::size_t next = 0;
    for (std::size_t i = 0; i < round_.ops.size(); ++i) {
      if (!round_.ops[i].signaled) continue;
      const ibv_wc wc = endpoint_.wait_send();
      if (wc.wr_id != i) fail("completion out of order: " + std::to_string(wc.wr_id), i);
      for (; next <= i; ++next) check_result(next);
    }
  }

  void post(std::size_t i) {
    const Op& op = round_.ops[i];
    std::vector<ibv_sge> sges = scatter(endpoint_, op, op.sges);
    ibv_send_wr wr{};
    wr.wr_id = i;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    wr.opcode = op.opcode;
    if (op.signaled) wr.send_flags = IBV_SEND_SIGNALED;
    const bool data_out = op.opcode != IBV_WR_RDMA_READ && !is_atomic(op);
    if (data_out && op.size > 0 && op.size <= endpoint_.inline_max()) wr.send_flags |= IBV_SEND_INLINE;
    if (has_imm(op)) wr.imm_data = op.imm;
    if (is_atomic(op)) {
      wr.wr.atomic.remote_addr = endpoint_.remote(op.slot);
      wr.wr.atomic.rkey = endpoint_.rkey();
      // Every other compare hits.
      wr.wr.atomic.compare_add =
          op.opcode == IBV_WR_ATOMIC_CMP_AND_SWP && op.operand % 2 == 0 ? original(i) : op.operand;
      wr.wr.atomic.swap = op.swap;
    } else {
      wr.wr.rdma.remote_addr = endpoint_.remote(op.slot);
      wr.wr.rdma.rkey = endpoint_.rkey();
    }
    endpoint_.post_send(wr);
  }

  [[nodiscard]] std::uint64_t original(std::size_t i) const {
    std::array<std::uint8_t, 8> bytes{};
    for (std::size_t at = 0; at < 8; ++at) bytes[at] = byte(i, at);
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data(), 8);
    return value;
  }

  void check_result(std::size_t i) const {
    const Op& op = round_.ops[i];
    if (op.opcode == IBV_WR_RDMA_READ) check_bytes(i);
    if (!is_atomic(op)) return;
    std::uint64_t value = 0;
    std::memcpy(&value, endpoint_.arena() + op.slot, 8);
    if (value != original(i)) fail("atomic answered another original value", i);
  }

  void respond() {
    for (std::size_t i = 0; i < round_.ops.size(); ++i) {
      const Op& op = round_.ops[i];
      if (round_.kind == Kind::kWritePoll) {
        poll_last_byte(op, i);
        check_bytes(i);
      } else if (consumes_receive(op)) {
        check_receive(i);
      }
    }
  }

  void poll_last_byte(const Op& op, std::size_t i) const {
    const volatile std::uint8_t* last = endpoint_.arena() + op.slot + op.size - 1;
    while (*last != byte(i, op.size - 1)) {
    }
    std::atomic_thread_fence(std::memory_order_acquire);
  }

  void check_receive(std::size_t i) {
    const Op& op = round_.ops[i];
    const ibv_wc wc = endpoint_.wait_receive();
    if (wc.wr_id != i) fail("receive completed out of order: " + std::to_string(wc.wr_id), i);
    if (wc.byte_len != op.size) fail("byte_len " + std::to_string(wc.byte_len), i);
    if (((wc.wc_flags & IBV_WC_WITH_IMM) != 0) != has_imm(op)) fail("immediate flag", i);
    if (has_imm(op) && wc.imm_data != op.imm) fail("immediate value", i);
    const auto expected = op.opcode == IBV_WR_RDMA_WRITE_WITH_IMM ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    if (wc.opcode != expected) fail("completion opcode", i);
    check_bytes(i);
  }

  // After the final synchronization everything is in place at the responder too.
  void check_after() const {
    for (std::size_t i = 0; i < round_.ops.size(); ++i) {
      const Op& op = round_.ops[i];
      if (!is_atomic(op)) {
        check_bytes(i);
        continue;
      }
      std::uint64_t value = 0, expected = original(i);
      std::memcpy(&value, endpoint_.arena() + op.slot, 8);
      if (op.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        expected += op.operand;
      } else if (op.operand % 2 == 0 || op.operand == original(i)) {
        expected = op.swap;
      }
      if (value != expected) fail("atomic left another value", i);
    }
  }

  void check_guards() const {
    for (std::size_t i = 0; i < round_.ops.size(); ++i) {
      const Op& op = round_.ops[i];
      const std::size_t stop = i + 1 < round_.ops.size() ? round_.ops[i + 1].slot : op.slot + op.size + kGuardBytes;
      for (std::size_t at = op.slot + op.size; at < stop; ++at) {
        if (endpoint_.arena()[at] != kGuard) fail("guard byte behind it is overwritten", i);
      }
    }
  }

  const Options& options_;
  Endpoint& endpoint_;
  ControlChannel& control_;
  unsigned number_;
  const Round& round_;
};

}  // namespace

Totals run_rounds(const Options& options, Endpoint& endpoint, ControlChannel& control) {
  Totals totals;
  Draw draw(options.seed);
  for (unsigned number = 0; number < options.rounds; ++number) {
    const Round round = draw_round(draw, options);
    RoundRunner(options, endpoint, control, number, round).run();
    totals.operations += round.ops.size();
    for (const Op& op : round.ops) totals.bytes += op.size;
  }
  return totals;
}
