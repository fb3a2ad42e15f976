// tests/fuzz/cm_host.h - the host of a fuzzed RDMA-CM: one device, one address, every port free; and a count of the
// events that wait on each channel.
#pragma once

#include <array>
#include <cstdint>
#include <map>

#include "cm/rdma_host.h"

namespace brdma::fuzz {

inline constexpr IpAddress kHere = IpAddress::v4(10, 0, 0, 1);
inline constexpr std::array kPeers{IpAddress::v4(10, 0, 0, 2), IpAddress::v4(10, 0, 0, 3)};

class CmHost : public cm::RdmaHost {
 public:
  Result<std::uint16_t, Status> take_port(wire::PortSpace, const cm::SocketAddress& address,
                                          const cm::PortOptions&) override {
    return address.port == 0 ? static_cast<std::uint16_t>(40'000) : address.port;
  }
  Status listen_port(wire::PortSpace, const cm::SocketAddress&) override { return Status::success(); }
  void release_port(wire::PortSpace, const cm::SocketAddress&, bool) override {}
  Result<IpAddress, Status> source_for(const cm::SocketAddress&) override { return kHere; }
  std::optional<cm::LocalDevice> device_of(const IpAddress& local, std::uint32_t) override {
    if (local != kHere) return std::nullopt;
    return cm::LocalDevice{1, 1, PathMtu::k4096};
  }
  void event_added(cm::ChannelNumber channel) override { ++waiting[channel]; }
  std::uint32_t take_back_events(cm::ChannelNumber channel, std::uint32_t count) override {
    waiting[channel] -= count;
    return count;
  }
  std::map<cm::ChannelNumber, std::int64_t> waiting;
};

}  // namespace brdma::fuzz
