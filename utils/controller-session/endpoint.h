// controller-session/endpoint.h - the address of a controller:  10.0.0.1:4799   [fd77::1]:4799   unix:/run/controller
// (a path), unix:@name (abstract: within one network namespace). Host names are not resolved.
#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <string>

namespace brdma::session {

using Protocol = boost::asio::generic::stream_protocol;

// Throws std::invalid_argument with a sentence.
[[nodiscard]] Protocol::endpoint parse_endpoint(const std::string& text);

}  // namespace brdma::session
