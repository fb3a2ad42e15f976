// rdma_cm/commands.h - the commands that librdmacm writes to its device node, "ucma", by number and layout. Facts of
// the kernel's interface (rdma_user_cm.h), the same in all supported releases of rdma-core, in our own words. A write
// is a header and a payload; the answer goes to the address at the start of most payloads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace brdma::provider::ucma {

enum class Command : std::uint32_t {
  kCreateId = 0,
  kDestroyId = 1,
  kBindIp = 2,
  kResolveIp = 3,
  kResolveRoute = 4,
  kQueryRoute = 5,
  kConnect = 6,
  kListen = 7,
  kAccept = 8,
  kReject = 9,
  kDisconnect = 10,
  kInitQpAttr = 11,
  kGetEvent = 12,
  kSetOption = 14,
  kNotify = 15,
  kJoinIpMulticast = 16,
  kLeaveMulticast = 17,
  kMigrateId = 18,
  kWriteEvent = 24  // from release 60 on
};
// Numbers of commands that there are at all: 13 and 19 to 23 are not served.
inline constexpr std::uint32_t kCommandsEnd = 25;
// Of a payload that we serve no more counts.
inline constexpr std::size_t kPayloadMax = 296;

struct Header {
  std::uint32_t command;
  std::uint16_t in;   // bytes of the payload
  std::uint16_t out;  // bytes that may be written to the answer's address
};

// struct sockaddr_in6's 28 bytes; a sockaddr_in for IPv4.
using SockAddr = std::array<std::byte, 28>;

struct CreateId {
  std::uint64_t uid, response;
  std::uint16_t port_space;
  std::uint8_t qp_type;
  std::array<std::uint8_t, 5> reserved;
};
struct Id {  // DESTROY_ID, QUERY_ROUTE, LEAVE_MCAST
  std::uint64_t response;
  std::uint32_t id, reserved;
};
struct BindIp {
  std::uint64_t response;
  SockAddr address;
  std::uint32_t id;
};
struct ResolveIp {
  SockAddr source, destination;
  std::uint32_t id, timeout_ms;
};
struct ResolveRoute {
  std::uint32_t id, timeout_ms;
};
struct Listen {
  std::uint32_t id, backlog;
};
struct ConnParam {
  std::uint32_t qp_num, qkey;
  std::array<std::byte, 256> private_data;
  std::uint8_t private_data_len, srq, responder_resources, initiator_depth, flow_control, retry_count, rnr_retry_count,
      valid;
};
struct Ece {
  std::uint32_t vendor_id, attr_mod;
};
struct Connect {
  ConnParam parameters;
  std::uint32_t id, reserved;
  Ece ece;
};
struct Accept {
  std::uint64_t uid;
  ConnParam parameters;
  std::uint32_t id, reserved;
  Ece ece;
};
struct Reject {
  std::uint32_t id;
  std::uint8_t private_data_len, reason;
  std::array<std::uint8_t, 2> reserved;
  std::array<std::byte, 256> private_data;
};
struct Disconnect {
  std::uint32_t id;
};
struct InitQpAttr {
  std::uint64_t response;
  std::uint32_t id, qp_state;
};
struct GetEvent {
  std::uint64_t response;
};
struct SetOption {
  std::uint64_t value;
  std::uint32_t id, level, name, length;
};
struct Notify {
  std::uint32_t id, event;
};
struct JoinIpMulticast {
  std::uint64_t response, uid;
  SockAddr group;
  std::uint32_t id;
};
struct MigrateId {
  std::uint64_t response;
  std::uint32_t id, fd;
};
struct WriteEvent {  // and behind the argument, which lies where an event's parameters do, room for these
  std::uint32_t id, reserved, event, status;
  std::uint64_t argument;
};
static_assert(sizeof(Header) == 8 && sizeof(CreateId) == 24 && sizeof(Id) == 16 && sizeof(BindIp) == 40 &&
              sizeof(ResolveIp) == 64 && sizeof(ConnParam) == 272 && sizeof(Connect) == 288 && sizeof(Accept) == 296 &&
              sizeof(Reject) == 264 && sizeof(InitQpAttr) == 16 && sizeof(SetOption) == 24 && sizeof(MigrateId) == 16 &&
              sizeof(JoinIpMulticast) == 48 && sizeof(WriteEvent) == 24 && sizeof(Accept) == kPayloadMax);

// --- answers ---
struct AddressHandle {
  std::array<std::uint8_t, 16> dgid;
  std::uint32_t flow_label;
  std::uint8_t sgid_index, hop_limit, traffic_class, reserved;
  std::uint16_t dlid;
  std::uint8_t sl, src_path_bits, static_rate, is_global, port_num, reserved2;
};
struct Route {
  std::array<std::uint8_t, 16> dgid, sgid;
  std::uint16_t dlid_be, slid_be;
  std::uint32_t raw_traffic, flow_label_be, reversible, mtu;
  std::uint16_t pkey_be;
  std::uint8_t hop_limit, traffic_class, numb_path, sl, mtu_selector, rate_selector, rate, packet_life_time_selector,
      packet_life_time, preference;
};
struct QueryRouteAnswer {
  std::uint64_t node_guid_be;
  std::array<Route, 2> routes;
  SockAddr source, destination;
  std::uint32_t num_paths;
  std::uint8_t port_num;
  std::array<std::uint8_t, 3> reserved;
  std::uint32_t ibdev_index, reserved2;
};
struct InitQpAttrAnswer {
  std::uint32_t mask, qp_state, cur_qp_state, path_mtu, path_mig_state, qkey, rq_psn, sq_psn, dest_qp_num,
      qp_access_flags;
  AddressHandle address_handle, alternate;
  std::uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
  std::uint16_t pkey_index, alt_pkey_index;
  std::uint8_t en_sqd_async_notify, sq_draining, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer, port_num, timeout,
      retry_cnt, rnr_retry, alt_port_num, alt_timeout;
  std::array<std::uint8_t, 5> reserved;
};
struct DatagramParam {
  std::uint32_t qp_num, qkey;
  AddressHandle address_handle;
  std::array<std::byte, 256> private_data;
  std::uint8_t private_data_len;
  std::array<std::uint8_t, 7> reserved;
};
struct EventAnswer {
  std::uint64_t uid;
  std::uint32_t id, event;
  std::int32_t status;
  union {
    DatagramParam datagram;
    ConnParam parameters;
  };
  std::uint32_t reserved;
  Ece ece;
};
static_assert(sizeof(AddressHandle) == 32 && sizeof(Route) == 64 && sizeof(QueryRouteAnswer) == 208 &&
              sizeof(InitQpAttrAnswer) == 144 && sizeof(DatagramParam) == 304 && sizeof(EventAnswer) == 336 &&
              offsetof(EventAnswer, parameters) == 20 && offsetof(EventAnswer, ece) == 328);

// Levels and names of SET_OPTION.
inline constexpr std::uint32_t kLevelId = 0, kLevelIb = 1;
inline constexpr std::uint32_t kOptionTos = 0, kOptionReuseAddress = 1, kOptionAfOnly = 2, kOptionAckTimeout = 3;
inline constexpr std::uint32_t kOptionIbPath = 1;  // of kLevelIb: one or more of so many bytes
inline constexpr std::uint32_t kIbPathBytes = 72;
// NOTIFY supports only this event of libibverbs.
inline constexpr std::uint32_t kEventCommunicationEstablished = 4, kEventPathMigrated = 6;
// Of WRITE_CM_EVENT, and of the event that it makes: the program's own (rdma_write_cm_event), librdmacm's own.
inline constexpr std::uint32_t kEventUser = 18, kEventInternal = 19;
// Of CREATE_ID and librdmacm's enum rdma_port_space.
inline constexpr std::uint16_t kPortSpaceIpoib = 0x0002, kPortSpaceTcp = 0x0106, kPortSpaceUdp = 0x0111,
                               kPortSpaceIb = 0x013F;
inline constexpr std::uint8_t kQpTypeXrcSend = 9, kQpTypeXrcReceive = 10;

}  // namespace brdma::provider::ucma
