#include "peer_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/datagram.h"
#include "wire/crc/icrc.h"

namespace brdma::attacks {
namespace {

IpAddress parse(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) throw std::runtime_error(text + " is no IPv4 address");
  const auto* const b = reinterpret_cast<const std::uint8_t*>(&address);
  return IpAddress::v4(b[0], b[1], b[2], b[3]);
}

sockaddr_in socket_address(const IpAddress& ip, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  std::memcpy(&address.sin_addr, &ip.bytes[12], 4);
  return address;
}

io::FileDescriptor open_socket(const IpAddress& own, std::uint16_t port) {
  io::FileDescriptor fd{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  const int probe = IP_PMTUDISC_PROBE, bytes = 8 << 20;
  ::setsockopt(fd.get(), IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  const sockaddr_in address = socket_address(own, port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("UDP port " + std::to_string(port) + ": " + std::strerror(errno));
  return fd;
}

}  // namespace

PeerSocket::PeerSocket(const std::string& own, const std::string& victim)
    : own_(parse(own)),
      victim_(parse(victim)),
      receiver_(open_socket(own_, kRoceUdpPort)),
      sender_(open_socket(own_, kSourcePort)) {}

void PeerSocket::sign(PacketBytes& packet) const {
  const wire::IcrcPath path{own_, victim_, kSourcePort, kRoceUdpPort, 0};
  store_le32(packet.data() + packet.size() - 4, wire::packet_icrc(path, packet));
}

void PeerSocket::send(const PacketBytes& packet) {
  const sockaddr_in to = socket_address(victim_, kRoceUdpPort);
  (void)::sendto(sender_.get(), packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

bool PeerSocket::receive(PacketBytes& packet, std::uint16_t& source_port) {
  for (;;) {
    packet.resize(1 << 16);
    sockaddr_in from{};
    socklen_t size = sizeof from;
    const ssize_t got =
        ::recvfrom(receiver_.get(), packet.data(), packet.size(), 0, reinterpret_cast<sockaddr*>(&from), &size);
    if (got < 0) return false;
    packet.resize(static_cast<std::size_t>(got));
    source_port = ntohs(from.sin_port);
    if (std::memcmp(&from.sin_addr, &victim_.bytes[12], 4) == 0 && got >= 16) return true;
  }
}

void PeerSocket::wait(int milliseconds) const {
  pollfd readable{receiver_.get(), POLLIN, 0};
  ::poll(&readable, 1, milliseconds);
}

}  // namespace brdma::attacks
