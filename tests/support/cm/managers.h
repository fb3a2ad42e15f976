// support/cm/managers.h - two connection managers and a wire between them that each test can make pass, lose or delay
// messages.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "cm/agent.h"

namespace brdma::cm {

inline constexpr std::uint64_t kService = 0x0106'1C06;
inline constexpr IpAddress kAddressA = IpAddress::v4(10, 0, 0, 1), kAddressB = IpAddress::v4(10, 0, 0, 2);
inline constexpr Endpoints kEndpointsA{kAddressA, kAddressB}, kEndpointsB{kAddressB, kAddressA};
using Kind = Event::Kind;

inline wire::CmReq request(std::uint32_t qpn = 0x111) {
  wire::CmReq req;
  req.service_id = kService;
  req.ca_guid = 0xA;
  req.qpn = qpn;
  req.path_mtu_code = 3;
  return req;
}
inline wire::CmRep reply(std::uint32_t qpn = 0x222) {
  wire::CmRep rep;
  rep.ca_guid = 0xB;
  rep.qpn = qpn;
  return rep;
}

// "a" connects, "b" listens.
class Managers : public testing::Test {
 protected:
  struct Side {
    Outbox outbox;
    Agent agent;
    Endpoints endpoints;
    std::vector<Event> events;
    Side(std::uint16_t prefix, const Endpoints& at) : agent(config(prefix), outbox), endpoints(at) {}
  };
  static Config config(std::uint16_t prefix) {
    Config config;
    config.id_prefix = prefix;
    config.seed = prefix;
    return config;
  }

  void SetUp() override { ASSERT_TRUE(b_.agent.listen(kService, 4).ok()); }

  using Passes = std::function<bool(const wire::CmMad&)>;
  static bool everything(const wire::CmMad&) { return true; }

  // Carries messages until there are none. Messages that do not pass are lost.
  void carry(const Passes& passes = everything) {
    OutgoingMad out;
    for (bool any = true; any;) {
      any = false;
      for (auto [from, to] : {std::pair{&a_, &b_}, std::pair{&b_, &a_}}) {
        while (from->outbox.poll(out)) {
          any = true;
          ASSERT_EQ(out.endpoints, from->endpoints);
          const auto mad = wire::parse_cm(out.mad);
          ASSERT_TRUE(mad);
          sent_.push_back(mad->message.index());
          if (passes(*mad)) to->agent.handle(to->endpoints, *mad, now_);
        }
      }
    }
    take_events();
  }
  void take_events() {
    for (Side* side : {&a_, &b_})
      while (auto event = side->agent.poll_event()) side->events.push_back(std::move(*event));
  }
  // Lets `duration` pass, carrying messages that the timers send.
  void pass(Duration duration, const Passes& passes = everything) {
    const Instant end = now_ + duration;
    for (;;) {
      std::optional<Instant> next;
      for (Side* side : {&a_, &b_}) {
        const auto at = side->agent.next_timeout();
        if (at && (!next || *at < *next)) next = at;
      }
      if (!next || *next > end) break;
      now_ = *next;
      a_.agent.handle_timeout(now_);
      b_.agent.handle_timeout(now_);
      carry(passes);
    }
    now_ = end;
  }
  CommId connect(const Passes& passes = everything) {
    const auto id = a_.agent.connect(kEndpointsA, request(), now_);
    EXPECT_TRUE(id);
    carry(passes);
    return id.value();
  }
  // Returns when both ends are at kEstablished.
  std::pair<CommId, CommId> established() {
    const CommId a = connect();
    const CommId b = b_.events.at(0).id;
    EXPECT_TRUE(b_.agent.accept(b, reply(), now_).ok());
    carry();
    EXPECT_TRUE(a_.agent.ready(a).ok());
    carry();
    EXPECT_EQ(a_.agent.state(a), ConnectionState::kEstablished);
    EXPECT_EQ(b_.agent.state(b), ConnectionState::kEstablished);
    return {a, b};
  }
  static std::vector<Kind> kinds(const Side& side) {
    std::vector<Kind> kinds;
    for (const Event& event : side.events) kinds.push_back(event.kind);
    return kinds;
  }
  template <class Message>
  static Passes all_but_first(unsigned count) {
    return [left = count](const wire::CmMad& mad) mutable {
      if (!std::holds_alternative<Message>(mad.message) || left == 0) return true;
      --left;
      return false;
    };
  }

  Instant now_ = Instant::from_ns(1'000'000'000);
  Side a_{0xA, kEndpointsA}, b_{0xB, kEndpointsB};
  std::vector<std::size_t> sent_;  // kinds of messages, as indices of wire::CmMessage
};

}  // namespace brdma::cm
