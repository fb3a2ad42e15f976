// qp/state/identity.h - state read by requester and responder of one queue pair: its identity, its peer, its mode.
#pragma once

#include <cstdint>

#include "base/config.h"
#include "base/local_memory.h"
#include "base/units.h"
#include "bitmaprdma/types.h"
#include "memory/memory_table.h"
#include "qp/queues/completion_queue.h"
#include "wire/opcode.h"

namespace brdma {
class SharedReceiveQueue;
}

namespace brdma::qp {

class LocalPath;  // qp/state/local_path.h

// enum ibv_event_type, those that queue pairs raise.
inline constexpr int kEventQpFatal = 1, kEventQpRequestError = 2, kEventQpAccessError = 3, kEventCommEstablished = 4,
                     kEventSqDrained = 5, kEventLastWqeReached = 16;

// A part's request to its queue pair; parts never change the state themselves.
struct Outcome {
  bool to_error = false;     // move to kErr and flush both queues
  int async_event = -1;      // enum ibv_event_type to raise, -1 = none
  bool sends_fail = false;   // UC, UD: move to kSqe and flush the send queue
  bool wants_local = false;  // a message has the size for local transfer by reference
  [[nodiscard]] bool asks_something() const { return to_error || sends_fail || wants_local || async_event >= 0; }
};

// Credit stated by the peer: limit of data in flight towards it.
struct PeerCredit {
  std::uint32_t packets = 0;
  std::uint32_t bytes = 0;
};

struct Identity {
  std::uint32_t qpn = 0;
  QpType type = QpType::kRc;
  XrcRole xrc = XrcRole::kNone;
  QpState state = QpState::kReset;
  bool signal_all = false;
  QpAttributes attributes;
  QpCapabilities capabilities;
  void* user = nullptr;
  ProtectionDomain* pd = nullptr;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  SharedReceiveQueue* srq = nullptr;         // null: receives of its own
  const RecoveryConfig* recovery = nullptr;  // one of the engine's: changed at run time (Engine::change_recovery)

  // Every packet of bitmap mode carries the token of its receiver, a new random one for each connection. A host that
  // has seen none of its packets cannot make one. 0: none yet. Until bitmap mode is agreed peer_token is unproven.
  std::uint64_t own_token = 0, peer_token = 0;
  // Bitmap mode: agreed once CAPS went both ways; then requests leave as bitmap packets. Standard packets that the peer
  // sent before it knew are accepted for a while, then refused.
  Instant standard_until;
  bool bitmap_agreed = false;
  bool peer_reads_piggybacks = false;         // piggybacked ACKs allowed: both sides' CAPS state it
  bool peer_reads_operations = false;         // large transfers may leave as operations: the peer's CAPS state it
  bool peer_reads_ranges = false;             // likewise: SACK ranges behind the bits of an acknowledgement
  bool peer_reads_waited = false;             // likewise: the waiting time of acknowledged packets
  bool peer_knows_copies = false;             // likewise: copies of READ requests
  bool peer_knows_link_state = false;         // likewise: link-state inquiries
  bool peer_managed = false;                  // its packets leave with wan.managed_dscp, if that is set
  LocalState local_state = LocalState::kOff;  // is its data fetched from its memory, or why not
  std::uint16_t xrc_domain = 0;               // of an XRC target
  std::uint32_t peer_window = 0;
  std::uint32_t sending_paths = 1;    // for spraying: our source ports, at most as many as the peer distinguishes
  std::uint32_t receiving_paths = 1;  // the peer's, as far as distinguished here; 1: its path ids have no meaning
  PeerCredit peer_credit;             // from the last CAPS or BitmapAck
  LocalPath* local = nullptr;         // if the peer has an address of this host; owned by the queue pair

  // For memory access on behalf of the peer.
  [[nodiscard]] memory::Accessor accessor() const { return memory::Accessor{pd, qpn}; }
  [[nodiscard]] std::uint32_t mtu() const { return mtu_bytes(attributes.path_mtu); }
  [[nodiscard]] bool can_receive() const {
    return state == QpState::kRtr || state == QpState::kRts || state == QpState::kSqd || state == QpState::kSqe;
  }
  [[nodiscard]] bool goes_back() const { return recovery->mode == RecoveryMode::kGoBackN; }  // go-back-N
  [[nodiscard]] bool can_send() const { return state == QpState::kRts || state == QpState::kSqd; }
};

// XRC queue pairs speak standard packets only.
[[nodiscard]] inline bool negotiates(const Identity& id) {
  return id.xrc == XrcRole::kNone && brdma::negotiates(id.recovery->mode);
}
[[nodiscard]] inline std::uint8_t opcode_of(const Identity& id, wire::RcOp op, bool bitmap) {
  const std::uint8_t opcode = wire::opcode_of(op, bitmap);
  return id.xrc == XrcRole::kNone ? opcode : static_cast<std::uint8_t>(opcode | wire::kTransportXrc);
}

// RESET: what the peer's CAPS stated holds for that connection alone.
inline void forget_peer(Identity& identity) {
  identity.own_token = identity.peer_token = 0;
  identity.bitmap_agreed = identity.peer_reads_piggybacks = identity.peer_reads_operations =
      identity.peer_reads_ranges = identity.peer_reads_waited = identity.peer_knows_copies =
          identity.peer_knows_link_state = identity.peer_managed = false;
  identity.peer_window = 0;
  identity.sending_paths = identity.receiving_paths = 1;
  identity.peer_credit = {};
}

}  // namespace brdma::qp
