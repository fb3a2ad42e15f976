// wire/cm/cm_messages.h - messages of the InfiniBand connection manager (IBTA 12.6), one struct each, and their MADs.
// Offsets in the comments count from the MAD's data (byte 24). Private data has the message's full length: a program's
// data is padded with zeros, and its own length is not on the wire.
//
//   active                      passive        lookup of a UD queue pair
//   REQ  ------------------------>             SIDR_REQ -->  <-- SIDR_REP
//        <------------ MRA (be patient)
//        <----------------- REP | REJ
//   RTU  ------------------------>
//        <---- DREQ / DREP ----->
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "base/ip_address.h"
#include "base/psn.h"
#include "base/units.h"
#include "wire/cm/mad.h"

namespace brdma::wire {

template <std::size_t kSize>
using PrivateData = std::array<std::byte, kSize>;

inline constexpr std::uint8_t kCmClass = 7, kCmClassVersion = 2, kCmMethodSend = 3;

// The message that a MRA or REJ answers (2 bits).
enum class CmAnswered : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };

// Reasons to refuse a REQ or REP (IBTA table 114); only those that we send.
namespace reject {
inline constexpr std::uint16_t kNoQp = 1, kNoResources = 3, kTimeout = 4, kUnsupported = 5, kInvalidCommId = 6,
                               kInvalidServiceId = 8, kStaleConnection = 10, kInvalidGid = 12, kConsumer = 28,
                               kVendorOption = 35;
}

// Extended connection establishment: capabilities exchanged between devices of one vendor. The modifier is the MAD's.
struct CmEce {
  std::uint32_t vendor_id = 0;  // 24 bits
  std::uint32_t modifier = 0;
  friend bool operator==(const CmEce&, const CmEce&) = default;
};

// A path in a REQ: 44 bytes at 52 (and an alternate one at 96, which we neither request nor accept).
// 0 LIDs | 4 local GID | 20 remote GID | 36 flow label (20 bits), rate (6) | 40 traffic class | 41 hop limit |
// 42 SL (4), subnet local | 43 ACK timeout (5)
struct CmPath {
  std::uint16_t local_lid = 0xFFFF, remote_lid = 0xFFFF;  // RoCE has none
  IpAddress local_gid, remote_gid;
  std::uint32_t flow_label = 0;  // 20 bits
  std::uint8_t rate = 0;         // 6 bits
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint8_t sl = 0;  // 4 bits
  bool subnet_local = false;
  std::uint8_t ack_timeout = 0;  // 5 bits: 4.096 us * 2^n
  friend bool operator==(const CmPath&, const CmPath&) = default;
};

// 0 local comm id | 5 vendor | 8 service id | 16 CA GUID | 28 Q_Key | 32 QPN, responder resources | 36 EECN, initiator
// depth | 40 remote EECN, remote timeout (5 bits), transport (2), flow control | 44 PSN, local timeout (5), retries (3)
// | 48 P_Key | 50 MTU (4), RDC, RNR retries (3) | 51 CM retries (4), SRQ, extended transport (3) | 52 path |
// 96 alternate path | 140 private data
struct CmReq {
  static constexpr std::uint16_t kAttribute = 0x10;
  std::uint32_t local_comm_id = 0;
  std::uint64_t service_id = 0;
  std::uint64_t ca_guid = 0;
  std::uint32_t qkey = 0;
  std::uint32_t qpn = 0;
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t remote_response_timeout = 0, local_response_timeout = 0;  // 5 bits: 4.096 us * 2^n
  std::uint8_t transport = 0;                                            // 0 RC, 1 UC, 2 RD, 3 see `extended`
  bool flow_control = false;
  Psn first_psn;  // first PSN that the receiver of this message sends (IBTA 12.6.7: of the sender's receive queue)
  std::uint8_t retry_count = 0, rnr_retry_count = 0;
  std::uint16_t pkey = kDefaultPkey;
  std::uint8_t path_mtu_code = 0;  // 1..5: 256..4096
  std::uint8_t cm_retries = 0;     // 4 bits
  bool srq = false;
  std::uint8_t extended_transport = 0;  // 3 bits: 1 XRC
  CmPath path;
  bool alternate = false;  // an alternate path is present
  CmEce ece;
  PrivateData<92> private_data{};
};

// 0 local comm id | 4 remote | 8 message (2 bits), service timeout (5 bits of byte 9) | 10 private data
struct CmMra {
  static constexpr std::uint16_t kAttribute = 0x11;
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  CmAnswered answered = CmAnswered::kReq;
  std::uint8_t service_timeout = 0;  // 5 bits
  PrivateData<222> private_data{};
};

// 0 local comm id (0: none) | 4 remote | 8 message (2 bits) | 9 length of information (7 bits) | 10 reason |
// 12 information, 72 bytes | 84 private data
struct CmRej {
  static constexpr std::uint16_t kAttribute = 0x12;
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  CmAnswered answered = CmAnswered::kReq;
  std::uint16_t reason = 0;
  std::uint8_t information_length = 0;
  std::array<std::byte, 72> information{};
  PrivateData<148> private_data{};
};

// 0 local comm id | 4 remote | 8 Q_Key | 12 QPN, vendor (high) | 16 EECN, vendor (middle) | 20 PSN, vendor (low) |
// 24 responder resources | 25 initiator depth | 26 target ACK delay (5), failover (2), flow control | 27 RNR retries
// (3), SRQ | 28 CA GUID | 36 private data
struct CmRep {
  static constexpr std::uint16_t kAttribute = 0x13;
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::uint32_t qkey = 0;
  std::uint32_t qpn = 0;
  std::uint32_t eecn = 0;  // of an XRC target: the queue pair's number, and `qpn` is 0
  [[nodiscard]] std::uint32_t queue_pair() const { return eecn != 0 ? eecn : qpn; }
  Psn first_psn;  // as in CmReq
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t target_ack_delay = 0;  // 5 bits
  std::uint8_t failover = 0;          // 2 bits: 0 accepted, 1 not supported, 2 rejected
  bool flow_control = false;
  std::uint8_t rnr_retry_count = 0;
  bool srq = false;
  std::uint64_t ca_guid = 0;
  CmEce ece;
  PrivateData<196> private_data{};
};

// 0 local comm id | 4 remote | 8 private data
struct CmRtu {
  static constexpr std::uint16_t kAttribute = 0x14;
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  PrivateData<224> private_data{};
};

// 0 local comm id | 4 remote | 8 QPN of the receiver | 12 private data
struct CmDreq {
  static constexpr std::uint16_t kAttribute = 0x15;
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::uint32_t remote_qpn = 0;
  PrivateData<220> private_data{};
};

// 0 local comm id | 4 remote | 8 private data
struct CmDrep {
  static constexpr std::uint16_t kAttribute = 0x16;
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  PrivateData<224> private_data{};
};

// 0 request id | 4 P_Key | 8 service id | 16 private data
struct CmSidrReq {
  static constexpr std::uint16_t kAttribute = 0x17;
  std::uint32_t request_id = 0;
  std::uint16_t pkey = kDefaultPkey;
  std::uint64_t service_id = 0;
  PrivateData<216> private_data{};
};

// 0 request id | 4 status | 5 length of information | 8 QPN | 12 service id | 20 Q_Key | 24 information, 72 bytes |
// 96 private data
struct CmSidrRep {
  static constexpr std::uint16_t kAttribute = 0x18;
  std::uint32_t request_id = 0;
  std::uint8_t status = 0;  // 0 valid, 1 service not supported, 2 rejected, 3 no queue pair
  std::uint32_t qpn = 0;
  std::uint64_t service_id = 0;
  std::uint32_t qkey = 0;
  PrivateData<136> private_data{};
};

// Alternate paths. Of a LAP, only the fields that an answer needs; and the APR that refuses it.
// LAP: 0 local comm id | 4 remote | the path.  APR: 0 local comm id | 4 remote | 8 length of information | 9 status
struct CmLap {
  static constexpr std::uint16_t kAttribute = 0x19;
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
};
struct CmApr {
  static constexpr std::uint16_t kAttribute = 0x1A;
  std::uint32_t local_comm_id = 0, remote_comm_id = 0;
  std::uint8_t status = 0;
};
inline constexpr std::uint8_t kAprUnsupported = 2;  // alternate paths are not supported

using CmMessage = std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep, CmLap, CmApr>;

struct CmMad {
  std::uint64_t transaction = 0;
  CmMessage message;
};

// Empty: wrong class or version, an unknown method or attribute, or a field outside its range (path MTU code).
[[nodiscard]] std::optional<CmMad> parse_cm(MadBytes mad);
void emit_cm(const CmMad& mad, MadBuffer out);

// Length of a 5-bit timeout: 4.096 us * 2^code.
[[nodiscard]] constexpr Duration cm_timeout(std::uint8_t code) {
  return Duration::from_ns(std::int64_t{4096} << (code & 31));
}

}  // namespace brdma::wire
