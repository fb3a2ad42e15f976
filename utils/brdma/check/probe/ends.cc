#include "check/probe/ends.h"

#include <arpa/inet.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "check/probe/probe.h"

namespace brdma::probe {
namespace {

std::string dotted(const Address& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, address.data(), text.data(), text.size());
  std::string out = text.data();
  return out.starts_with("::ffff:") ? out.substr(7) : out;
}

}  // namespace

End open_end(const Channel& channel) {
  const Address own = channel.own_address(), peer = channel.peer_address();
  End end;
  std::memcpy(end.peer_gid.raw, peer.data(), peer.size());
  for (const std::string& name : list_names()) {
    if (!name.starts_with("brdma_")) continue;
    auto device = std::make_unique<Device>(name);
    end.gid_index = device->gid_index(own);
    if (end.gid_index < 0) continue;
    end.device = std::move(device);
    return end;
  }
  throw StepFailed("no device has the address " + dotted(own) + ", over which the two hosts talk", ENODEV,
                   "peer_no_device");
}

Json numbers_of(const End& end, std::uint32_t qpn) {
  return {
      {"qpn", qpn}, {"psn", QueuePair::kFirstPsn}, {"rkey", end.device->rkey()}, {"address", end.device->address()}};
}

Remote remote_of(const End& end, const Json& message, bool region) {
  Remote remote;
  remote.gid = end.peer_gid;
  remote.qpn = static_cast<std::uint32_t>(number_of(message, "qpn", 2, 0xFF'FFFF));
  if (!region) return remote;
  remote.psn = static_cast<std::uint32_t>(number_of(message, "psn", 0, 0xFF'FFFF));
  remote.rkey = static_cast<std::uint32_t>(number_of(message, "rkey", 0, UINT32_MAX));
  remote.address = number_of(message, "address", 0, UINT64_MAX);
  return remote;
}

}  // namespace brdma::probe
