#include "io/netdev/netdev_watch.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "io/udp/open_socket.h"

namespace brdma::io {
namespace {

constexpr std::size_t kBufferBytes = 16'384;  // longer messages are cut; the needed part is at their beginning

// Evaluates one message about the interface. The offset of the interface's index in its payload depends on the kind.
NetdevWatch::Change judge(const nlmsghdr& header, const std::byte* payload, std::size_t bytes, std::uint32_t ifindex) {
  std::uint32_t subject = 0;
  const auto load = [&](std::size_t offset) {
    if (offset + sizeof subject <= bytes) std::memcpy(&subject, payload + offset, sizeof subject);
  };
  switch (header.nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      load(offsetof(ifinfomsg, ifi_index));
      break;
    case RTM_NEWADDR:
    case RTM_DELADDR:
      load(offsetof(ifaddrmsg, ifa_index));
      break;
    default:
      break;
  }
  if (subject != ifindex) return NetdevWatch::Change::kNone;
  // A bridge's port is "deleted" from the bridge, too: in another family.
  const bool link_gone = header.nlmsg_type == RTM_DELLINK && bytes > 0 && payload[0] == std::byte{AF_UNSPEC};
  return link_gone ? NetdevWatch::Change::kRemoved : NetdevWatch::Change::kChanged;
}

// The greatest change of these messages.
NetdevWatch::Change judge_all(ConstBytes messages, std::uint32_t ifindex) {
  NetdevWatch::Change seen = NetdevWatch::Change::kNone;
  for (std::size_t at = 0; at + sizeof(nlmsghdr) <= messages.size();) {
    nlmsghdr header;
    std::memcpy(&header, messages.data() + at, sizeof header);
    if (header.nlmsg_len < sizeof header) break;
    const std::size_t payload = at + NLMSG_HDRLEN;
    const std::size_t end = std::min<std::size_t>(messages.size(), at + header.nlmsg_len);
    if (payload < end) seen = std::max(seen, judge(header, messages.data() + payload, end - payload, ifindex));
    at += NLMSG_ALIGN(header.nlmsg_len);
  }
  return seen;
}

}  // namespace

void NetdevWatch::open(std::uint32_t ifindex) {
  ifindex_ = ifindex;
  socket_.reset(open_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE));
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (socket_.valid() && ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    socket_.reset();
  if (!socket_.valid()) seen_ = look();
}

std::optional<Interface> NetdevWatch::look() const {
  std::vector<Interface> interfaces;
  if (read_interfaces(interfaces) != 0) return seen_;  // unknown
  const auto found = std::ranges::find(interfaces, ifindex_, &Interface::index);
  return found == interfaces.end() ? std::nullopt : std::optional{*found};
}

NetdevWatch::Change NetdevWatch::compare() {
  if (!seen_) return Change::kNone;  // it is gone, and that was reported
  auto now = look();
  if (now && *now == *seen_) return Change::kNone;
  seen_ = std::move(now);
  return seen_ ? Change::kChanged : Change::kRemoved;
}

NetdevWatch::Change NetdevWatch::read() {
  if (!socket_.valid()) return compare();
  Change seen = Change::kNone;
  alignas(nlmsghdr) std::array<std::byte, kBufferBytes> buffer;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == ENOBUFS) {  // some were lost: any change is possible
      seen = std::max(seen, Change::kChanged);
      continue;
    }
    if (got <= 0) return seen;
    seen = std::max(seen, judge_all({buffer.data(), static_cast<std::size_t>(got)}, ifindex_));
  }
}

}  // namespace brdma::io
