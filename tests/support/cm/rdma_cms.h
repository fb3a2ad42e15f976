// support/cm/rdma_cms.h - RDMA-CM as a program sees it: two hosts' identifiers over a wire; the test sets the host's
// answers (ports, routes, devices).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "cm/rdma_cm.h"

namespace brdma::cm {

inline constexpr IpAddress kAddressA = IpAddress::v4(10, 0, 0, 1), kAddressB = IpAddress::v4(10, 0, 0, 2),
                           kAny = IpAddress::v4(0, 0, 0, 0);
inline constexpr ChannelNumber kChannel = 5, kOther = 6;
using Kind = RdmaEventKind;

// One interface with one address; every other is reached through it.
class Machine : public RdmaHost {
 public:
  explicit Machine(const IpAddress& address, std::uint64_t guid, std::uint32_t ifindex = 2)
      : address_(address), guid_(guid), ifindex_(ifindex) {}
  Result<std::uint16_t, Status> take_port(wire::PortSpace, const SocketAddress& address, const PortOptions&) override {
    const std::uint16_t port = address.port == 0 ? next_port_++ : address.port;
    if (!taken_.insert(port).second) return Status{EADDRINUSE};
    return port;
  }
  Status listen_port(wire::PortSpace, const SocketAddress& address) override {
    if (std::exchange(forget_at_next_question, false)) {
      taken_.clear();
      forgot_ = true;
    }
    return taken_.contains(address.port) ? Status::success() : Status{EINVAL};
  }
  bool lost_ports() override { return std::exchange(forgot_, false); }
  void release_port(wire::PortSpace, const SocketAddress& address, bool) override { taken_.erase(address.port); }
  Result<IpAddress, Status> source_for(const SocketAddress& to) override {
    if (to.is_link_local() && to.scope != ifindex_) return Status{EINVAL};
    if (to.address.is_v4() != address_.is_v4()) return Status{ENETUNREACH};
    return address_;
  }
  std::optional<LocalDevice> device_of(const IpAddress& local, std::uint32_t scope) override {
    if (local != address_ || (scope != 0 && scope != ifindex_)) return std::nullopt;
    return LocalDevice{guid_, 1, PathMtu::k4096, ifindex_};
  }
  void event_added(ChannelNumber channel) override { ++waiting[channel]; }
  std::uint32_t take_back_events(ChannelNumber channel, std::uint32_t count) override {
    const std::uint32_t free = std::min<std::uint32_t>(count, static_cast<std::uint32_t>(waiting[channel]));
    waiting[channel] -= free;
    return free;
  }
  // A reader takes a channel's count of an event: it is about to fetch it.
  void told_reader(ChannelNumber channel) { --waiting[channel]; }

  std::map<ChannelNumber, std::int64_t> waiting;
  std::set<std::uint16_t> taken_;
  bool forget_at_next_question = false;  // the daemon restarts during the query
  IpAddress address_;

 private:
  bool forgot_ = false;
  std::uint64_t guid_;
  std::uint32_t ifindex_;
  std::uint16_t next_port_ = 40'000;
};

class RdmaCms : public testing::Test {
 protected:
  static Config config(std::uint16_t prefix) {
    Config config;
    config.id_prefix = prefix;
    config.seed = prefix;
    return config;
  }
  void carry() {
    OutgoingMad out;
    for (bool any = true; any;) {
      any = false;
      while (a_.poll_send(out)) {
        any = true;
        note(out.mad);
        b_.handle_mad({out.endpoints.remote, out.endpoints.local}, out.mad, now_);
      }
      while (b_.poll_send(out)) {
        any = true;
        note(out.mad);
        a_.handle_mad({out.endpoints.remote, out.endpoints.local}, out.mad, now_);
      }
    }
  }
  void note(wire::MadBytes mad) {
    const auto cm = wire::parse_cm(mad);
    if (const auto* req = cm ? std::get_if<wire::CmReq>(&cm->message) : nullptr) request_ = *req;
    if (const auto* rep = cm ? std::get_if<wire::CmRep>(&cm->message) : nullptr) reply_ = *rep;
  }
  // The next event of a side, which must be of this kind.
  RdmaEvent fetch(RdmaCm& side, Kind kind, ChannelNumber channel = kChannel) {
    const auto event = side.fetch_event(channel);
    if (!event) {
      ADD_FAILURE() << "no event, instead of " << static_cast<int>(kind);
      return {};
    }
    EXPECT_EQ(event->kind, kind);
    return *event;
  }
  IdNumber listener(std::uint32_t backlog = 0) {
    const IdNumber id = b_.create(kChannel, 0xB0).value();
    EXPECT_TRUE(b_.bind(id, {kAny, 7174}).ok());
    EXPECT_TRUE(b_.listen(id, backlog).ok());
    return id;
  }
  IdNumber resolved(std::uint64_t user = 0xA0) {
    const IdNumber id = a_.create(kChannel, user).value();
    EXPECT_TRUE(a_.resolve_address(id, std::nullopt, {kAddressB, 7174}).ok());
    fetch(a_, Kind::kAddressResolved);
    EXPECT_TRUE(a_.resolve_route(id).ok());
    fetch(a_, Kind::kRouteResolved);
    return id;
  }
  static ConnectParameters parameters(std::uint32_t qpn, std::string_view words = "") {
    ConnectParameters parameters;
    parameters.qpn = qpn;
    parameters.responder_resources = 3;
    parameters.initiator_depth = 5;
    parameters.retry_count = 6;
    parameters.rnr_retry_count = 7;
    parameters.private_data_length = static_cast<std::uint8_t>(words.size());
    std::memcpy(parameters.private_data.data(), words.data(), words.size());
    return parameters;
  }
  static std::string words(const RdmaEvent& event) {
    return std::string(reinterpret_cast<const char*>(event.parameters.private_data.data()));
  }

  Instant now_ = Instant::from_ns(1'000'000'000);
  wire::CmReq request_;  // the last ones on the wire
  wire::CmRep reply_;
  Machine machine_a_{kAddressA, 0xA}, machine_b_{kAddressB, 0xB};
  RdmaCm a_{config(0xA), machine_a_}, b_{config(0xB), machine_b_};
};

}  // namespace brdma::cm
