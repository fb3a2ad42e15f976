// cm/rdma_types.h - values of RDMA-CM: parameters of librdmacm's calls and its events, without their layouts.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/ip_address.h"
#include "base/psn.h"
#include "base/result.h"
#include "base/units.h"
#include "bitmaprdma/types.h"
#include "wire/cm/cm_address.h"
#include "wire/cm/cm_messages.h"

namespace brdma::cm {

// An identifier, like librdmacm's rdma_cm_id: the lowest free number. 0 is valid.
using IdNumber = std::uint32_t;
inline constexpr IdNumber kNobody = ~IdNumber{0};  // no identifier's number
using ChannelNumber = std::uint32_t;

struct SocketAddress {
  IpAddress address;  // IPv4 is mapped; 0.0.0.0 and :: stand for every address of their family
  std::uint16_t port = 0;
  std::uint32_t scope = 0;  // interface of a link-local IPv6 address
  [[nodiscard]] bool is_any() const { return address.is_zero() || address == IpAddress::v4(0, 0, 0, 0); }
  [[nodiscard]] bool is_loopback() const {  // 127.0.0.0/8 or ::1
    if (address.is_v4()) return address.bytes[12] == 127;
    return address == IpAddress{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  }
  [[nodiscard]] bool is_link_local() const {  // fe80::/10: means nothing without an interface
    return address.bytes[0] == 0xFE && (address.bytes[1] & 0xC0) == 0x80;
  }
  friend bool operator==(const SocketAddress&, const SocketAddress&) = default;
};

// enum rdma_cm_event_type
enum class RdmaEventKind : std::uint8_t {
  kAddressResolved = 0,
  kAddressError = 1,
  kRouteResolved = 2,
  kRouteError = 3,
  kConnectRequest = 4,
  kConnectResponse = 5,
  kConnectError = 6,
  kUnreachable = 7,
  kRejected = 8,
  kEstablished = 9,
  kDisconnected = 10,
  kDeviceRemoval = 11,
  kMulticastJoin = 12,
  kAddressChange = 14,
  kTimeWaitExit = 15,
  kUser = 18,  // these two the program, or its librdmacm, writes: RdmaCm::write_event()
  kInternal = 19
};

// struct rdma_conn_param, with the private data received or to send.
struct ConnectParameters {
  std::uint32_t qpn = 0;
  std::uint8_t responder_resources = 0, initiator_depth = 0;
  std::uint8_t flow_control = 0, retry_count = 0, rnr_retry_count = 0;
  bool srq = false;
  std::uint8_t private_data_length = 0;
  std::array<std::byte, 256> private_data{};
};

inline constexpr std::uint32_t kDatagramQkey = 0x0123'4567;  // the common Q_Key of RDMA_PS_UDP
inline constexpr std::uint32_t kMulticastQpn = 0xFF'FFFF;    // IBTA 10.5.2.1

// struct rdma_ud_param, its private data apart: destination of datagrams.
struct DatagramDestination {
  std::uint32_t qpn = 0, qkey = 0;
  IpAddress address;
  std::uint8_t sgid_index = 0, traffic_class = 0;
};

struct RdmaEvent {
  RdmaEventKind kind{};
  IdNumber id = 0;         // whom it is about: of kConnectRequest the new one
  std::uint64_t user = 0;  // of kConnectRequest the listener's
  IdNumber counted = 0;  // whose it is, who when destroyed waits until it has been acknowledged; kNobody: is destroyed
  std::int32_t status = 0;  // negative errno value; of kRejected the reason
  Instant since{};          // of what the network brought: when it came
  ConnectParameters parameters{};
  wire::CmEce ece{};
  std::optional<DatagramDestination>
      datagram{};                           // of datagram services and multicast, instead of queue pair parameters
  std::optional<IdNumber> group{};          // of kMulticastJoin: the membership, which counts the event too
  std::optional<std::uint64_t> argument{};  // of kUser and kInternal, instead of queue pair parameters
};

// Attributes to set on a queue pair, for ibv_modify_qp. `mask`: ibv_qp_attr_mask.
struct QueuePairSetting {
  std::uint32_t mask = 0;
  QpAttributes attributes;
};

// The part of a device that connections need.
struct LocalDevice {
  std::uint64_t guid = 0;
  std::uint8_t sgid_index = 0;
  PathMtu mtu = PathMtu::k1024;
  std::uint32_t ifindex = 0;
};

struct PortOptions {
  bool reuse = false;      // several may have it, as long as only one listens
  bool ipv6_only = false;  // :: does not stand for IPv4 addresses too
};

}  // namespace brdma::cm
