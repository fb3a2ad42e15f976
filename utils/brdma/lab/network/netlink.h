// lab/network/netlink.h - makes and configures network interfaces by rtnetlink: the operations that a lab needs,
// without ip(8). A Netlink belongs to the network namespace of the thread that made it. Errors: std::system_error with
// a sentence that names the interface.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "fabric/routing/frame.h"
#include "io/system/file_descriptor.h"

namespace brdma::lab {

// The two ends must have different indices. The kernel takes a veth end whose index equals its peer's for a physical
// one, and then waits up to a second before it reports RUNNING. Equal indices are likely when both are the first
// interface of a new namespace.
struct VethEnd {
  std::string name;
  std::uint32_t index = 0;
  fabric::MacAddress mac = 0;
  int namespace_fd = -1;  // the namespace to put it in; -1: the Netlink's own
};

class Netlink {
 public:
  Netlink();
  void create_veth(const VethEnd& a, const VethEnd& b, std::uint32_t mtu);
  void create_bridge(const std::string& name, std::uint32_t mtu);
  void set_up(const std::string& name);
  // Returns when the interface can carry packets: up, with a carrier, and the kernel has registered both.
  void wait_until_running(const std::string& name);
  void set_master(const std::string& name, const std::string& bridge);
  // `address`: text of an IPv4 or IPv6 address. Usable at once: no duplicate address detection.
  void add_address(const std::string& name, const std::string& address, std::uint8_t prefix_length);
  void add_neighbour(const std::string& name, const std::string& address, fabric::MacAddress mac);
  void add_default_route(const std::string& name, const std::string& gateway);

 private:
  class Message;
  void request(Message& message, const std::string& what);
  [[nodiscard]] std::uint32_t index_of(const std::string& name);

  io::FileDescriptor socket_;
  std::uint32_t sequence_ = 0;
};

}  // namespace brdma::lab
