// rdma_cm/translate.h - between librdmacm's layouts and RDMA-CM's values.
#pragma once

#include <optional>

#include "cm/rdma_cm.h"
#include "rdma_cm/commands.h"

namespace brdma::provider {

// Empty: neither IPv4 nor IPv6.
[[nodiscard]] std::optional<cm::SocketAddress> address_of(const ucma::SockAddr& address);
// False: an omitted address.
[[nodiscard]] bool has_family(const ucma::SockAddr& address);
[[nodiscard]] ucma::SockAddr sock_addr_of(const cm::SocketAddress& address);
[[nodiscard]] cm::ConnectParameters parameters_of(const ucma::ConnParam& parameters);
[[nodiscard]] ucma::QueryRouteAnswer answer_of(const cm::RouteInfo& route);
[[nodiscard]] ucma::InitQpAttrAnswer answer_of(const cm::QueuePairSetting& setting);
[[nodiscard]] ucma::EventAnswer answer_of(const cm::RdmaEvent& event);

}  // namespace brdma::provider
