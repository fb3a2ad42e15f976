#include "io/netdev/neighbours.h"

#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "io/udp/open_socket.h"
#include "io/udp/socket_address.h"

namespace brdma::io {
namespace {

// An answer about one route or neighbour has some 200 bytes. It is on the stack of the sending thread, which may be
// small.
constexpr std::size_t kMessageBytes = 1024;

// Receives and discards one message. False: there is none; errno says why.
bool take_one(int fd) {
  std::byte begin{};
  return ::syscall(SYS_recvfrom, fd, &begin, sizeof begin, MSG_DONTWAIT, nullptr, nullptr) > 0;
}

int family_of(const IpAddress& address) { return address.is_v4() ? AF_INET : AF_INET6; }

ConstBytes address_bytes(const IpAddress& address) {
  const auto* const all = reinterpret_cast<const std::byte*>(address.bytes.data());
  if (address.is_v4()) return {all + kMappedV4Offset, sizeof(in_addr)};
  return {all, sizeof(in6_addr)};
}

// A question with its attributes, and the answer in the same memory.
template <class Header>
class Question {
 public:
  explicit Question(std::uint16_t type) {
    message_ = new (buffer_.data()) nlmsghdr{};
    message_->nlmsg_type = type;
    message_->nlmsg_flags = NLM_F_REQUEST;
    message_->nlmsg_len = NLMSG_LENGTH(sizeof(Header));
    header_ = new (buffer_.data() + NLMSG_HDRLEN) Header{};
  }
  Header& header() { return *header_; }
  void add(std::uint16_t type, ConstBytes value) {
    const rtattr attribute{static_cast<std::uint16_t>(RTA_LENGTH(value.size())), type};
    std::byte* const at = buffer_.data() + NLMSG_ALIGN(message_->nlmsg_len);
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), value.data(), value.size());
    message_->nlmsg_len = static_cast<std::uint32_t>(NLMSG_ALIGN(message_->nlmsg_len) + RTA_LENGTH(value.size()));
  }
  // The kernel answers within the call that asks. False: an error, or another answer.
  [[nodiscard]] bool ask(int fd, std::uint16_t answer_type) {
    // Discards the rest of an earlier question.
    while (take_one(fd)) {
    }
    if (::syscall(SYS_sendto, fd, buffer_.data(), message_->nlmsg_len, MSG_DONTWAIT, nullptr, 0) < 0) return false;
    got_ = ::syscall(SYS_recvfrom, fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT, nullptr, nullptr);
    return got_ >= static_cast<long>(NLMSG_LENGTH(sizeof(Header))) && message_->nlmsg_type == answer_type &&
           message_->nlmsg_len <= static_cast<std::size_t>(got_);
  }
  // An attribute of the answer; empty: none.
  [[nodiscard]] ConstBytes find(std::uint16_t type) const { return find_in(attributes(), type); }
  [[nodiscard]] static ConstBytes find_in(ConstBytes attributes, std::uint16_t type) {
    for (std::size_t at = 0; at + sizeof(rtattr) <= attributes.size();) {
      rtattr attribute;
      std::memcpy(&attribute, &attributes[at], sizeof attribute);
      if (attribute.rta_len < sizeof attribute || at + attribute.rta_len > attributes.size()) break;
      if ((attribute.rta_type & NLA_TYPE_MASK) == type)
        return attributes.subspan(at + RTA_LENGTH(0), attribute.rta_len - RTA_LENGTH(0));
      at += RTA_ALIGN(attribute.rta_len);
    }
    return {};
  }

 private:
  [[nodiscard]] ConstBytes attributes() const {
    const std::size_t begin = NLMSG_SPACE(sizeof(Header));
    return message_->nlmsg_len > begin ? ConstBytes{&buffer_[begin], message_->nlmsg_len - begin} : ConstBytes{};
  }
  alignas(nlmsghdr) std::array<std::byte, kMessageBytes> buffer_{};
  nlmsghdr* message_ = nullptr;
  Header* header_ = nullptr;
  long got_ = 0;
};

std::optional<std::uint32_t> number(ConstBytes value) {
  std::uint32_t out = 0;
  if (value.size() != sizeof out) return std::nullopt;
  std::memcpy(&out, value.data(), sizeof out);
  return out;
}

std::optional<IpAddress> address_of(ConstBytes value) {
  IpAddress out = IpAddress::v4(0, 0, 0, 0);
  if (value.size() == sizeof(in_addr)) {
    std::memcpy(out.bytes.data() + kMappedV4Offset, value.data(), value.size());
  } else if (value.size() == sizeof(in6_addr)) {
    std::memcpy(out.bytes.data(), value.data(), value.size());
  } else {
    return std::nullopt;
  }
  return out;
}

struct Route {
  IpAddress next;         // the gateway, or the peer itself
  std::uint32_t mtu = 0;  // 0: the interface's
};

std::optional<Route> ask_route(int fd, std::uint32_t ifindex, const IpAddress& source, const IpAddress& destination) {
  Question<rtmsg> question{RTM_GETROUTE};
  question.header().rtm_family = static_cast<unsigned char>(family_of(destination));
  const ConstBytes to = address_bytes(destination), from = address_bytes(source);
  question.header().rtm_dst_len = static_cast<unsigned char>(to.size() * 8);
  question.header().rtm_src_len = static_cast<unsigned char>(from.size() * 8);
  question.add(RTA_DST, to);
  question.add(RTA_SRC, from);
  if (is_link_local(destination) || is_link_local(source))
    question.add(RTA_OIF, {reinterpret_cast<const std::byte*>(&ifindex), sizeof ifindex});
  if (!question.ask(fd, RTM_NEWROUTE)) return std::nullopt;
  if (question.header().rtm_type != RTN_UNICAST || number(question.find(RTA_OIF)) != ifindex) return std::nullopt;
  if (!question.find(RTA_ENCAP).empty()) return std::nullopt;
  Route route{destination, 0};
  if (const auto gateway = address_of(question.find(RTA_GATEWAY))) {
    route.next = *gateway;
  } else if (const ConstBytes via = question.find(RTA_VIA); via.size() > sizeof(std::uint16_t)) {
    const auto other = address_of(via.subspan(sizeof(std::uint16_t)));  // of the other family
    if (!other) return std::nullopt;
    route.next = *other;
  }
  if (const auto mtu = number(Question<rtmsg>::find_in(question.find(RTA_METRICS), RTAX_MTU))) route.mtu = *mtu;
  return route;
}

enum class Trust : std::uint8_t { kNone, kStale, kGood };

Trust ask_neighbour(int fd, std::uint32_t ifindex, const IpAddress& address, MacBytes& mac) {
  Question<ndmsg> question{RTM_GETNEIGH};
  question.header().ndm_family = static_cast<unsigned char>(family_of(address));
  question.header().ndm_ifindex = static_cast<int>(ifindex);
  question.add(NDA_DST, address_bytes(address));
  if (!question.ask(fd, RTM_NEWNEIGH)) return Trust::kNone;
  const ConstBytes found = question.find(NDA_LLADDR);
  if (found.size() != mac.size()) return Trust::kNone;
  std::memcpy(mac.data(), found.data(), mac.size());
  constexpr unsigned kGood = NUD_REACHABLE | NUD_PERMANENT | NUD_NOARP | NUD_DELAY | NUD_PROBE;
  const unsigned state = question.header().ndm_state;
  return (state & kGood) != 0 ? Trust::kGood : (state & NUD_STALE) != 0 ? Trust::kStale : Trust::kNone;
}

}  // namespace

Neighbours::Neighbours(std::uint32_t ifindex)
    : ifindex_(ifindex),
      changes_(open_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)),
      questions_(open_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)),
      any_(open_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)),
      entries_(std::make_unique<std::array<Entry, kEntries>>()) {
  sockaddr_nl address{};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_NEIGH | RTMGRP_LINK | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE | RTMGRP_IPV4_IFADDR |
                      RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_RULE;
  // Without it changes are noticed after kKeep, which is soon enough.
  if (changes_.valid()) (void)::bind(changes_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

Neighbours::Entry& Neighbours::place_of(const IpAddress& source, const IpAddress& destination) {
  std::uint64_t mixed = 0;
  const auto mix = [&](const IpAddress& address) {
    for (std::size_t at = 0; at < address.bytes.size(); at += sizeof mixed) {
      std::uint64_t half = 0;
      std::memcpy(&half, address.bytes.data() + at, sizeof half);
      mixed = (mixed ^ half) * 0x9E37'79B9'7F4A'7C15u;
    }
  };
  mix(destination);
  mix(source);
  Entry& entry = (*entries_)[(mixed >> 32) % kEntries];
  if (!entry.known || entry.destination != destination || entry.source != source) {
    entry = Entry{};
    entry.source = source;
    entry.destination = destination;
  }
  return entry;
}

// Any change: all is queried again.
void Neighbours::look_for_changes() {
  bool changed = false;
  while (take_one(changes_.get()) || errno == ENOBUFS) changed = true;
  if (changed) ++generation_;
}

const NextHop* Neighbours::find(const IpAddress& source, const IpAddress& destination, Instant now) {
  if (now - looked_at_ >= kLookEvery) [[unlikely]] {
    looked_at_ = now;
    look_for_changes();
  }
  Entry& entry = place_of(source, destination);
  if (!entry.known || entry.generation != generation_ || now >= entry.good_until) [[unlikely]] {
    ask(entry);
    entry.known = true;
    entry.generation = generation_;
    entry.good_until = now + (entry.usable ? kKeep : entry.made_sure ? 0_ns : kKeepUnknown);
  }
  return entry.usable ? &entry.hop : nullptr;
}

bool Neighbours::ask_interface(NextHop& hop) const {
  ifreq request{};
  request.ifr_ifindex = static_cast<int>(ifindex_);
  if (::ioctl(any_.get(), SIOCGIFNAME, &request) != 0) return false;
  if (::ioctl(any_.get(), SIOCGIFFLAGS, &request) != 0 || (request.ifr_flags & IFF_UP) == 0) return false;
  if (::ioctl(any_.get(), SIOCGIFMTU, &request) != 0) return false;
  hop.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  if (::ioctl(any_.get(), SIOCGIFHWADDR, &request) != 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER) return false;
  std::memcpy(hop.source.data(), request.ifr_hwaddr.sa_data, hop.source.size());
  return true;
}

void Neighbours::ask(Entry& entry) {
  const bool made_sure = std::exchange(entry.made_sure, false);
  entry.usable = false;
  if (entry.source.is_zero()) return;
  const auto route = ask_route(questions_.get(), ifindex_, entry.source, entry.destination);
  if (!route || !ask_interface(entry.hop)) return;
  if (route->mtu != 0) entry.hop.mtu = std::min(entry.hop.mtu, route->mtu);
  const Trust trust = ask_neighbour(questions_.get(), ifindex_, route->next, entry.hop.destination);
  entry.made_sure = trust == Trust::kStale;
  // When it first becomes stale, send by UDP: the kernel then queries the neighbour.
  entry.usable = trust == Trust::kGood || (trust == Trust::kStale && made_sure);
}

}  // namespace brdma::io
