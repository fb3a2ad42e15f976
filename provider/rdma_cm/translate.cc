#include "rdma_cm/translate.h"

#include <arpa/inet.h>
#include <endian.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "device_files/port.h"
#include "io/udp/socket_address.h"

namespace brdma::provider {
namespace {

constexpr std::uint32_t kUnknownIndex = 0xFFFF'FFFF;  // librdmacm then uses the GUID
constexpr std::uint8_t kHopLimit = 64;

}  // namespace

std::optional<cm::SocketAddress> address_of(const ucma::SockAddr& bytes) {
  static_assert(sizeof(sockaddr_in6) == sizeof(ucma::SockAddr));
  sockaddr_in6 v6{};
  std::memcpy(&v6, bytes.data(), sizeof v6);
  if (v6.sin6_family == AF_INET6) {
    return cm::SocketAddress{io::from_in6_addr(v6.sin6_addr), ntohs(v6.sin6_port), v6.sin6_scope_id};
  }
  if (v6.sin6_family != AF_INET) return std::nullopt;
  sockaddr_in v4{};
  std::memcpy(&v4, bytes.data(), sizeof v4);
  return cm::SocketAddress{io::from_in_addr(v4.sin_addr), ntohs(v4.sin_port)};
}

bool has_family(const ucma::SockAddr& address) { return address[0] != std::byte{} || address[1] != std::byte{}; }

ucma::SockAddr sock_addr_of(const cm::SocketAddress& address) {
  ucma::SockAddr bytes{};
  if (address.address.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    v4.sin_addr = io::to_in_addr(address.address);
    std::memcpy(bytes.data(), &v4, sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(address.port);
    v6.sin6_addr = io::to_in6_addr(address.address);
    v6.sin6_scope_id = address.scope;
    std::memcpy(bytes.data(), &v6, sizeof v6);
  }
  return bytes;
}

cm::ConnectParameters parameters_of(const ucma::ConnParam& from) {
  cm::ConnectParameters to;
  to.qpn = from.qp_num & 0xFF'FFFF;
  to.responder_resources = from.responder_resources;
  to.initiator_depth = from.initiator_depth;
  to.flow_control = from.flow_control;
  to.retry_count = from.retry_count & 7;
  to.rnr_retry_count = from.rnr_retry_count & 7;
  to.srq = from.srq != 0;
  to.private_data_length = from.private_data_len;
  to.private_data = from.private_data;
  return to;
}

ucma::QueryRouteAnswer answer_of(const cm::RouteInfo& route) {
  ucma::QueryRouteAnswer answer{};
  answer.ibdev_index = kUnknownIndex;
  if (route.local.port != 0) answer.source = sock_addr_of(route.local);
  if (!route.remote.is_any()) answer.destination = sock_addr_of(route.remote);
  if (!route.device) return answer;
  answer.node_guid_be = htobe64(route.device->guid);
  answer.port_num = 1;
  answer.num_paths = route.resolved ? 1 : 0;
  ucma::Route& first = answer.routes[0];
  first.sgid = route.local.address.bytes;
  first.dgid = route.remote.address.bytes;
  first.reversible = htobe32(1);
  first.mtu = static_cast<std::uint32_t>(route.device->mtu);
  first.pkey_be = htobe16(kPkey);
  first.hop_limit = kHopLimit;
  first.numb_path = 1;
  constexpr std::uint8_t kExactly = 2;
  first.mtu_selector = first.rate_selector = first.packet_life_time_selector = kExactly;
  first.packet_life_time = route.packet_life_time;
  return answer;
}

ucma::InitQpAttrAnswer answer_of(const cm::QueuePairSetting& setting) {
  const QpAttributes& qp = setting.attributes;
  ucma::InitQpAttrAnswer answer{};
  answer.mask = setting.mask;
  answer.qkey = qp.qkey;
  answer.qp_state = static_cast<std::uint32_t>(qp.state);
  answer.path_mtu = static_cast<std::uint32_t>(qp.path_mtu);
  answer.rq_psn = qp.receive_psn.value();
  answer.sq_psn = qp.send_psn.value();
  answer.dest_qp_num = qp.destination_qpn;
  answer.qp_access_flags = qp.access;
  answer.max_rd_atomic = qp.max_rd_atomic;
  answer.max_dest_rd_atomic = qp.max_dest_rd_atomic;
  answer.min_rnr_timer = qp.min_rnr_timer;
  answer.port_num = qp.port;
  answer.timeout = qp.timeout;
  answer.retry_cnt = qp.retry_count;
  answer.rnr_retry = qp.rnr_retry;
  ucma::AddressHandle& ah = answer.address_handle;
  ah.dgid = qp.peer_address.bytes;
  ah.sgid_index = qp.sgid_index;
  ah.hop_limit = qp.hop_limit;
  ah.traffic_class = qp.traffic_class;
  ah.is_global = 1;
  ah.port_num = qp.port;
  return answer;
}

namespace {

ucma::DatagramParam datagram_of(const cm::RdmaEvent& event) {
  const cm::DatagramDestination& from = *event.datagram;
  ucma::DatagramParam to{};
  to.qp_num = from.qpn;
  to.qkey = from.qkey;
  to.private_data = event.parameters.private_data;
  to.private_data_len = event.parameters.private_data_length;
  if (from.address.is_zero()) return to;  // a request without a source address
  to.address_handle.dgid = from.address.bytes;
  to.address_handle.sgid_index = from.sgid_index;
  to.address_handle.hop_limit = kHopLimit;
  to.address_handle.traffic_class = from.traffic_class;
  to.address_handle.is_global = 1;
  to.address_handle.port_num = 1;
  return to;
}

}  // namespace

ucma::EventAnswer answer_of(const cm::RdmaEvent& event) {
  ucma::EventAnswer answer{};
  answer.uid = event.user;
  answer.id = event.id;
  answer.event = static_cast<std::uint32_t>(event.kind);
  answer.status = event.status;
  answer.ece = {event.ece.vendor_id, event.ece.modifier};
  if (event.datagram) {
    answer.datagram = datagram_of(event);
    return answer;
  }
  if (event.argument) {
    std::memcpy(&answer.parameters, &*event.argument, sizeof *event.argument);
    return answer;
  }
  ucma::ConnParam& to = answer.parameters;
  to.qp_num = event.parameters.qpn;
  to.private_data = event.parameters.private_data;
  to.private_data_len = event.parameters.private_data_length;
  to.srq = event.parameters.srq ? 1 : 0;
  to.responder_resources = event.parameters.responder_resources;
  to.initiator_depth = event.parameters.initiator_depth;
  to.flow_control = event.parameters.flow_control;
  to.retry_count = event.parameters.retry_count;
  to.rnr_retry_count = event.parameters.rnr_retry_count;
  return answer;
}

}  // namespace brdma::provider
