// support/traffic.h - the traffic of one side: a random list of work requests of every kind, and the expected result in
// both memories. The reference memories are written when the list is made: operations of one direction happen in the
// order of posting, and the two directions share no bytes.
//
// IBTA's ordering leaves one freedom: a READ or an atomic need not be executed before a WRITE posted after it. If such
// a pair touches the same bytes, the later one gets the fence flag, as a program must do it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/random.h"
#include "bitmaprdma/types.h"
#include "support/arena.h"

namespace brdma::test {

struct TrafficConfig {
  std::uint32_t operations_max = 40;
  std::uint32_t operation_bytes_max = 300 * 1024;
  std::uint64_t bytes_max = 700 * 1024;  // of the whole list, about
  std::uint32_t mtu = 1024;
  std::uint32_t sges_max = 4;
  std::uint32_t inline_bytes_max = 0;
  std::uint32_t signal_every_max = 8;
  bool sends = true, writes = true, reads = true, atomics = true;
  bool ends_in_error = false;  // the peer refuses one of the last few operations; later ones are flushed
};

struct Operation {
  static constexpr std::size_t kBeyondRegion = SIZE_MAX;  // `remote.offset`: its last byte lies one beyond the region
  WorkOpcode opcode = WorkOpcode::kSend;
  std::uint32_t flags = 0;
  std::uint32_t length = 0;
  std::vector<Buffer> local;
  Buffer remote;  // WRITE, READ, atomics
  std::uint32_t immediate_be = 0;
  std::uint64_t compare_or_add = 0, swap = 0;
  CompletionStatus expected = CompletionStatus::kSuccess;
  std::uint32_t rkey_error = 0;  // added to the peer's key
  bool overwritten = false;      // a later operation changes bytes of `remote`
  bool alone = true;             // no other operation changes bytes of `remote`

  [[nodiscard]] bool changes_remote() const {
    return opcode == WorkOpcode::kRdmaWrite || opcode == WorkOpcode::kRdmaWriteWithImm || is_atomic();
  }
  [[nodiscard]] bool is_write() const {
    return opcode == WorkOpcode::kRdmaWrite || opcode == WorkOpcode::kRdmaWriteWithImm;
  }
  [[nodiscard]] bool is_atomic() const {
    return opcode == WorkOpcode::kAtomicCmpSwap || opcode == WorkOpcode::kAtomicFetchAdd;
  }
  [[nodiscard]] bool is_send() const { return opcode == WorkOpcode::kSend || opcode == WorkOpcode::kSendWithImm; }
  [[nodiscard]] bool has_immediate() const {
    return opcode == WorkOpcode::kSendWithImm || opcode == WorkOpcode::kRdmaWriteWithImm;
  }
  [[nodiscard]] bool consumes_receive() const { return is_send() || has_immediate(); }
};

struct Receive {
  std::vector<Buffer> local;
  std::vector<Buffer> filled;  // that the message fills
  std::uint32_t length = 0;
  CompletionOpcode opcode = CompletionOpcode::kReceive;
  bool has_immediate = false;
  std::uint32_t immediate_be = 0;
  CompletionStatus expected = CompletionStatus::kSuccess;
};

struct Traffic {
  std::vector<Operation> operations;
  std::vector<Receive> receives;  // on the other side, in order
  std::uint64_t bytes = 0;
};

// A message that the peer refuses, and the operations behind it. They must not change memory, so only READs and atomics
// follow, which are not executed before their turn. The refused one waits for all responses (fence): earlier ones
// succeed.

// Cuts buffers from `local` and `remote` and applies every operation to their references.
[[nodiscard]] Traffic plan_traffic(const TrafficConfig& config, Random& random, Arena& local, Arena& remote);

}  // namespace brdma::test
