// bitmaprdma/types.h - the verbs' vocabulary as plain values, shared by the engine and its users (the rdma-core
// provider, tests, the simulator). Enumerators and the layouts of Completion and Sge equal libibverbs' own, so that a
// provider passes them through (it asserts that at compile time).
// Errors: every operation returns a Status with an errno value of the verbs manual; then nothing has changed.
// Thread-safety: values; none of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ip_address.h"
#include "base/psn.h"
#include "base/units.h"

namespace brdma {

enum class QpState : std::uint8_t { kReset = 0, kInit, kRtr, kRts, kSqd, kSqe, kErr };  // enum ibv_qp_state
enum class QpType : std::uint8_t { kRc = 2, kUc = 3, kUd = 4 };                         // enum ibv_qp_type
// Of an RC queue pair that is half of an extended reliable connection (IBTA annex A14): an initiator only sends, a
// target only receives, into the shared receive queue that each request names. enum ibv_qp_type: 9, 10.
enum class XrcRole : std::uint8_t { kNone, kInitiator, kTarget };
enum class PathMtu : std::uint8_t { k256 = 1, k512, k1024, k2048, k4096 };  // enum ibv_mtu
[[nodiscard]] constexpr std::uint32_t mtu_bytes(PathMtu mtu) { return 128u << static_cast<unsigned>(mtu); }

// enum ibv_wr_opcode
enum class WorkOpcode : std::uint8_t {
  kRdmaWrite = 0,
  kRdmaWriteWithImm = 1,
  kSend = 2,
  kSendWithImm = 3,
  kRdmaRead = 4,
  kAtomicCmpSwap = 5,
  kAtomicFetchAdd = 6,
  kLocalInvalidate = 7,
  kBindMw = 8,
  kSendWithInvalidate = 9,
  kFlush = 14,
  kAtomicWrite = 15,
};

// enum ibv_send_flags
inline constexpr std::uint32_t kSendFence = 1, kSendSignaled = 2, kSendSolicited = 4, kSendInline = 8;

// enum ibv_access_flags
inline constexpr std::uint32_t kAccessLocalWrite = 1, kAccessRemoteWrite = 2, kAccessRemoteRead = 4,
                               kAccessRemoteAtomic = 8, kAccessMwBind = 16, kAccessZeroBased = 32,
                               kAccessFlushGlobal = 256, kAccessFlushPersistent = 512;

// struct ibv_sge
struct Sge {
  std::uint64_t address = 0;
  std::uint32_t length = 0;
  std::uint32_t lkey = 0;
};

// Destination of a UD message (struct ibv_ah_attr, its GID index resolved): a value, copied when a work request is
// posted.
struct AddressHandle {
  IpAddress local, peer;
  std::uint8_t sgid_index = 0, traffic_class = 0, hop_limit = 64;
  std::uint32_t flow_label = 0;
};

struct SendRequest {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges;
  WorkOpcode opcode = WorkOpcode::kSend;
  std::uint32_t flags = 0;  // kSend...
  // On the wire, big endian. Host order: the key that kSendWithInvalidate and kLocalInvalidate invalidate; the region
  // (lkey) that kBindMw binds to.
  std::uint32_t immediate_be = 0;
  // WRITE, READ, atomics, FLUSH; kBindMw: the window's start address in the region
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;            // kBindMw: the window's from then on
  std::uint64_t compare_or_add = 0;  // CMP_SWAP: compare; FETCH_ADD: addend; kBindMw, kFlush: length
  std::uint64_t swap = 0;  // CMP_SWAP; kBindMw: kAccess...; kFlush: placement | selectivity << 8, as FETH has them
  const AddressHandle* address = nullptr;  // UD
  std::uint32_t remote_qpn = 0;            // UD; XRC initiator: number of the shared receive queue
  std::uint32_t remote_qkey = 0;           // UD; bit 31 set: the queue pair's own is sent
};

// A WRITE that has completely arrived in a watched region (Engine::watch_writes): all of its bytes are in memory, and
// everything that its queue pair received before it has been executed.
struct WriteArrival {
  void* user = nullptr;       // as given to watch_writes
  std::uint64_t address = 0;  // as the peer named it
  std::uint32_t length = 0;
  std::uint32_t qp_num = 0;  // ours
};

struct ReceiveRequest {
  std::uint64_t wr_id = 0;
  std::span<const Sge> sges;
};

// A shared receive queue's attributes: requested and granted. `limit`: an event is raised once when fewer posted
// receives are left (0: not armed). Masks: enum ibv_srq_attr_mask.
struct SrqAttributes {
  std::uint32_t wr_max = 0;
  std::uint32_t sge_max = 0;
  std::uint32_t limit = 0;
};
inline constexpr std::uint32_t kSrqAttrWrMax = 1, kSrqAttrLimit = 2;

// enum ibv_wc_status
enum class CompletionStatus : std::uint32_t {
  kSuccess = 0,
  kLocalLengthError = 1,
  kLocalQpOperationError = 2,
  kLocalProtectionError = 4,
  kFlushed = 5,
  kWindowBindError = 6,
  kBadResponse = 7,
  kLocalAccessError = 8,
  kRemoteInvalidRequest = 9,
  kRemoteAccessError = 10,
  kRemoteOperationError = 11,
  kRetryExceeded = 12,
  kRnrRetryExceeded = 13,
  kRemoteAborted = 16,
  kGeneralError = 21,
};

// enum ibv_wc_opcode
enum class CompletionOpcode : std::uint32_t {
  kSend = 0,
  kRdmaWrite = 1,
  kRdmaRead = 2,
  kCompSwap = 3,
  kFetchAdd = 4,
  kBindMw = 5,
  kLocalInvalidate = 6,
  kFlush = 8,
  kAtomicWrite = 9,
  kReceive = 128,
  kReceiveRdmaWithImm = 129,
};

inline constexpr std::uint32_t kCompletionWithGrh = 1, kCompletionWithImm = 2, kCompletionWithInvalidate = 8;

// struct ibv_wc, member for member
struct Completion {
  std::uint64_t wr_id = 0;
  CompletionStatus status = CompletionStatus::kSuccess;
  CompletionOpcode opcode = CompletionOpcode::kSend;
  std::uint32_t vendor_error = 0;
  std::uint32_t byte_length = 0;
  std::uint32_t immediate_be = 0;
  std::uint32_t qp_num = 0;
  std::uint32_t source_qp = 0;
  std::uint32_t flags = 0;
  std::uint16_t pkey_index = 0;
  std::uint16_t slid = 0;
  std::uint8_t sl = 0;
  std::uint8_t dlid_path_bits = 0;
};
static_assert(sizeof(Completion) == 48);

// Of an armed completion queue: it notifies after `count` completions, or `period` after the first of them. Without
// effect where count is 0 or 1, or period 0: each arming then notifies at the first.
struct CqModeration {
  std::uint16_t count = 0;
  Duration period;
  [[nodiscard]] bool delays() const { return count > 1 && period > Duration{}; }
};

struct CqOptions {
  bool stamped = false;         // keeps the time of each completion
  bool ignore_overrun = false;  // an overrun overwrites the oldest completion, which is lost
  CqModeration moderation{};
};

struct QpCapabilities {
  std::uint32_t send_wr_max = 0;
  std::uint32_t receive_wr_max = 0;
  std::uint32_t send_sge_max = 0;
  std::uint32_t receive_sge_max = 0;
  std::uint32_t inline_bytes_max = 0;
};

// Bits of enum ibv_qp_attr_mask that modify_qp understands.
inline constexpr std::uint32_t kQpAttrState = 1, kQpAttrCurrentState = 2, kQpAttrAccess = 8, kQpAttrPkeyIndex = 16,
                               kQpAttrPort = 32, kQpAttrQkey = 64, kQpAttrAv = 128, kQpAttrPathMtu = 256,
                               kQpAttrTimeout = 512, kQpAttrRetryCount = 1024, kQpAttrRnrRetry = 2048,
                               kQpAttrRqPsn = 4096, kQpAttrMaxRdAtomic = 8192, kQpAttrMinRnrTimer = 32768,
                               kQpAttrSqPsn = 65536, kQpAttrMaxDestRdAtomic = 131072, kQpAttrCapabilities = 524288,
                               kQpAttrDestQpn = 1048576;

struct QpAttributes {
  QpState state = QpState::kReset;
  QpState current_state = QpState::kReset;
  PathMtu path_mtu = PathMtu::k1024;
  std::uint32_t access = 0;  // kAccess...
  std::uint32_t destination_qpn = 0;
  Psn receive_psn;          // first PSN expected from the peer (rq_psn)
  Psn send_psn;             // first PSN sent (sq_psn)
  IpAddress local_address;  // the source GID that sgid_index names
  IpAddress peer_address;   // dgid
  std::uint8_t sgid_index = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint32_t flow_label = 0;
  std::uint8_t timeout = 14;        // local ACK timeout: 4.096 us * 2^timeout; 0 = none
  std::uint8_t retry_count = 7;     // 0..7
  std::uint8_t rnr_retry = 7;       // 0..6, 7 = for ever
  std::uint8_t min_rnr_timer = 12;  // coded, IBTA table 45
  std::uint8_t max_rd_atomic = 0;   // READs and atomics outstanding as requester
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t port = 1;
  std::uint16_t pkey_index = 0;
  std::uint32_t qkey = 0;
};

}  // namespace brdma
