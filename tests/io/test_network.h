// tests/io/test_network.h - the interface of the tests of contexts and verbs, with its addresses: lo; or, with
// BRDMA_TEST_XDP=mirror, one that returns its packets (mirrored_network.h), with AF_XDP in both directions.
#pragma once

#include <cstdlib>
#include <string_view>

#include "base/ip_address.h"

namespace brdma::test {

inline bool over_xdp() {
  const char* const value = std::getenv("BRDMA_TEST_XDP");
  return value != nullptr && std::string_view(value) == "mirror";
}

inline constexpr const char* kMirroredInterface = "mirrored";

inline const char* test_interface() { return over_xdp() ? kMirroredInterface : "lo"; }
inline const char* test_address4() { return over_xdp() ? "10.8.0.1" : "127.0.0.1"; }
// The same as a value, and the interface's IPv6 address.
inline IpAddress test_ip4() { return over_xdp() ? IpAddress::v4(10, 8, 0, 1) : IpAddress::v4(127, 0, 0, 1); }
inline IpAddress test_ip6() {
  if (over_xdp()) return {{0xFD, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

}  // namespace brdma::test
