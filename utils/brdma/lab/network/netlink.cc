#include "lab/network/netlink.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <stdexcept>
#include <system_error>

namespace brdma::lab {
namespace {

constexpr int kRunningWaitMs = 5'000;

[[noreturn]] void fail(int error, const std::string& what) {
  throw std::system_error(error, std::generic_category(), what);
}

std::array<std::uint8_t, 6> mac_bytes(fabric::MacAddress mac) {
  std::array<std::uint8_t, 6> bytes{};
  for (std::size_t i = 0; i < 6; ++i) bytes[i] = static_cast<std::uint8_t>(mac >> (40 - 8 * i));
  return bytes;
}

struct ParsedAddress {
  std::uint8_t family = AF_INET;
  std::array<std::uint8_t, 16> bytes{};
  std::size_t size = 4;
};
ParsedAddress parse_address(const std::string& text) {
  ParsedAddress address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) return address;
  address.family = AF_INET6;
  address.size = 16;
  if (inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) return address;
  fail(EINVAL, "not an IP address: " + text);
}

}  // namespace

// A netlink message under construction: header, family header, attributes that may nest.
class Netlink::Message {
 public:
  Message(std::uint16_t type, std::uint16_t flags) {
    header().nlmsg_len = NLMSG_HDRLEN;
    header().nlmsg_type = type;
    header().nlmsg_flags = static_cast<std::uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
  }
  [[nodiscard]] nlmsghdr& header() { return *reinterpret_cast<nlmsghdr*>(bytes_.data()); }
  [[nodiscard]] std::span<const std::byte> bytes() { return std::span{bytes_}.first(header().nlmsg_len); }

  template <class T>
  void put_header(const T& value) {
    append(&value, sizeof value);
  }
  void put(std::uint16_t type, const void* data, std::size_t size) {
    const rtattr attribute{static_cast<std::uint16_t>(RTA_LENGTH(size)), type};
    append(&attribute, sizeof attribute);
    append(data, size);
  }
  void put(std::uint16_t type, const std::string& text) { put(type, text.c_str(), text.size() + 1); }
  void put_u32(std::uint16_t type, std::uint32_t value) { put(type, &value, sizeof value); }
  void put_mac(std::uint16_t type, fabric::MacAddress mac) {
    const auto bytes = mac_bytes(mac);
    put(type, bytes.data(), bytes.size());
  }
  template <class Body>
  void nest(std::uint16_t type, Body body) {
    const std::size_t start = header().nlmsg_len;
    const rtattr attribute{RTA_LENGTH(0), type};
    append(&attribute, sizeof attribute);
    body();
    reinterpret_cast<rtattr*>(bytes_.data() + start)->rta_len = static_cast<std::uint16_t>(header().nlmsg_len - start);
  }

 private:
  void append(const void* data, std::size_t size) {
    const std::size_t at = header().nlmsg_len;
    if (at + NLMSG_ALIGN(size) > bytes_.size()) throw std::length_error("netlink message too long");
    std::memcpy(bytes_.data() + at, data, size);
    header().nlmsg_len = static_cast<std::uint32_t>(at + NLMSG_ALIGN(size));
  }
  alignas(nlmsghdr) std::array<std::byte, 1024> bytes_{};
};

Netlink::Netlink() : socket_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE)) {
  if (!socket_.valid()) fail(errno, "cannot open a netlink socket");
}

void Netlink::request(Message& message, const std::string& what) {
  message.header().nlmsg_seq = ++sequence_;
  const auto bytes = message.bytes();
  if (::send(socket_.get(), bytes.data(), bytes.size(), 0) < 0) fail(errno, what);
  alignas(nlmsghdr) std::array<std::byte, 8192> reply{};
  const ssize_t size = ::recv(socket_.get(), reply.data(), reply.size(), 0);
  if (size < static_cast<ssize_t>(NLMSG_LENGTH(sizeof(nlmsgerr)))) fail(EPROTO, what);
  const auto& header = *reinterpret_cast<const nlmsghdr*>(reply.data());
  if (header.nlmsg_type != NLMSG_ERROR || header.nlmsg_seq != sequence_) fail(EPROTO, what);
  const auto* error = static_cast<const nlmsgerr*>(NLMSG_DATA(&header));
  if (error->error != 0) fail(-error->error, what);
}

// if_nametoindex would use the calling thread's namespace; this socket stays in its own.
std::uint32_t Netlink::index_of(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(socket_.get(), SIOCGIFINDEX, &request) != 0) fail(errno, "interface " + name);
  return static_cast<std::uint32_t>(request.ifr_ifindex);
}

void Netlink::create_veth(const VethEnd& a, const VethEnd& b, std::uint32_t mtu) {
  Message message{RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL};
  const auto put_end = [&](const VethEnd& end) {
    ifinfomsg info{};
    info.ifi_index = static_cast<int>(end.index);
    message.put_header(info);
    message.put(IFLA_IFNAME, end.name);
    message.put_mac(IFLA_ADDRESS, end.mac);
    message.put_u32(IFLA_MTU, mtu);
    if (end.namespace_fd >= 0) message.put_u32(IFLA_NET_NS_FD, static_cast<std::uint32_t>(end.namespace_fd));
  };
  put_end(a);
  message.nest(IFLA_LINKINFO, [&] {
    message.put(IFLA_INFO_KIND, "veth", 4);
    message.nest(IFLA_INFO_DATA, [&] { message.nest(VETH_INFO_PEER, [&] { put_end(b); }); });
  });
  request(message, "cannot create the veth pair " + a.name + " - " + b.name);
}

void Netlink::create_bridge(const std::string& name, std::uint32_t mtu) {
  Message message{RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL};
  message.put_header(ifinfomsg{});
  message.put(IFLA_IFNAME, name);
  message.put_u32(IFLA_MTU, mtu);
  message.nest(IFLA_LINKINFO, [&] { message.put(IFLA_INFO_KIND, "bridge", 6); });
  request(message, "cannot create the bridge " + name);
}

void Netlink::set_up(const std::string& name) {
  Message message{RTM_NEWLINK, 0};
  ifinfomsg info{};
  info.ifi_index = static_cast<int>(index_of(name));
  info.ifi_flags = info.ifi_change = IFF_UP;
  message.put_header(info);
  request(message, "cannot bring up " + name);
}

void Netlink::wait_until_running(const std::string& name) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  const timespec step{0, 1'000'000};
  for (int waited_ms = 0; waited_ms < kRunningWaitMs; ++waited_ms) {
    if (ioctl(socket_.get(), SIOCGIFFLAGS, &request) != 0) fail(errno, "interface " + name);
    if ((request.ifr_flags & IFF_RUNNING) != 0) return;
    nanosleep(&step, nullptr);
  }
  fail(ETIMEDOUT, "interface " + name + " does not come up");
}

void Netlink::set_master(const std::string& name, const std::string& bridge) {
  Message message{RTM_NEWLINK, 0};
  ifinfomsg info{};
  info.ifi_index = static_cast<int>(index_of(name));
  message.put_header(info);
  message.put_u32(IFLA_MASTER, index_of(bridge));
  request(message, "cannot join " + name + " to " + bridge);
}

void Netlink::add_address(const std::string& name, const std::string& address, std::uint8_t prefix_length) {
  const ParsedAddress parsed = parse_address(address);
  Message message{RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL};
  ifaddrmsg info{};
  info.ifa_family = parsed.family;
  info.ifa_prefixlen = prefix_length;
  info.ifa_flags = parsed.family == AF_INET6 ? IFA_F_NODAD : 0;
  info.ifa_index = index_of(name);
  message.put_header(info);
  message.put(IFA_LOCAL, parsed.bytes.data(), parsed.size);
  message.put(IFA_ADDRESS, parsed.bytes.data(), parsed.size);
  request(message, "cannot give " + name + " the address " + address);
}

void Netlink::add_neighbour(const std::string& name, const std::string& address, fabric::MacAddress mac) {
  const ParsedAddress parsed = parse_address(address);
  Message message{RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE};
  ndmsg info{};
  info.ndm_family = parsed.family;
  info.ndm_ifindex = static_cast<int>(index_of(name));
  info.ndm_state = NUD_PERMANENT;
  message.put_header(info);
  message.put(NDA_DST, parsed.bytes.data(), parsed.size);
  message.put_mac(NDA_LLADDR, mac);
  request(message, "cannot set at " + name + " the neighbour " + address);
}

void Netlink::add_default_route(const std::string& name, const std::string& gateway) {
  const ParsedAddress parsed = parse_address(gateway);
  Message message{RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL};
  rtmsg info{};
  info.rtm_family = parsed.family;
  info.rtm_table = RT_TABLE_MAIN;
  info.rtm_protocol = RTPROT_BOOT;
  info.rtm_scope = RT_SCOPE_UNIVERSE;
  info.rtm_type = RTN_UNICAST;
  message.put_header(info);
  message.put(RTA_GATEWAY, parsed.bytes.data(), parsed.size);
  message.put_u32(RTA_OIF, index_of(name));
  request(message, "cannot give " + name + " the gateway " + gateway);
}

}  // namespace brdma::lab
