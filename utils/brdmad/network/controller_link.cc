#include "network/controller_link.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "bitmaprdma/context.h"
#include "control/address_text.h"
#include "control/json_text.h"
#include "control/wan_report.h"
#include "controller-session/messages.h"

namespace brdma::daemon {
namespace {

namespace ctl = fabric::controller;
using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kStale = 0;  // no session has that number

// Addresses that other hosts can reach.
std::vector<IpAddress> device_addresses() {
  std::vector<IpAddress> addresses;
  for (const DeviceInfo& device : list_devices()) {
    for (const DeviceInfo::Gid& gid : device.gids) {
      const auto& b = gid.address.bytes;
      const bool link_local = b[0] == 0xFE && (b[1] & 0xC0) == 0x80;
      if (!link_local && !gid.address.is_zero() && addresses.size() < ctl::Controller::kAddressesMax)
        addresses.push_back(gid.address);
    }
  }
  return addresses;
}

// A port that forwards nothing has speed 0, which in a switch's report means "not known".
ctl::LinkReport link_report(const recovery::LinkFacts& link) {
  const bool stands_still = link.over_limits && link.speed == 0 && link.link_rate != 0;
  return {.up = true,
          .rate = link.link_rate,
          .speed = stands_still ? 1 : link.speed,
          .load = 0,
          .queue = link.queue,
          .queue_limit = link.queue_limit,
          .drops = link.drops};
}

session::PassiveFeedback passive_feedback(const recovery::LinkReport& report) {
  session::PassiveFeedback feedback{{report.local, report.peer}, {}};
  for (const recovery::LinkFacts& link : report.links) {
    if (feedback.hops.size() < session::kHopsMax) {
      feedback.hops.push_back({link.switch_id, link.port, link_report(link)});
    }
  }
  return feedback;
}

}  // namespace

ControllerLink::ControllerLink(boost::asio::io_context& context, const LeaseBook& book, FindLink find_link,
                               const ControllerOptions& options)
    : book_(book),
      find_link_(std::move(find_link)),
      address_(options.address),
      key_name_(options.keys.empty() ? std::string{} : options.keys.begin()->first),
      member_(context, options.address, options.keys,
              {[this] {
                 greeted_ = hello();
                 return session::Message{session::HostGreeting{session::kVersion, greeted_}};
               },
               [this](const session::Message& message) { received(message); },
               [this](bool connected, const std::string& reason) { changed(connected, reason); }}),
      timer_(context) {}

// A shared key identifies no host: the host's name is then its first address.
ctl::HostHello ControllerLink::hello() const {
  ctl::HostHello hello{key_name_, device_addresses()};
  if (hello.id == session::kAnybody) {
    hello.id = hello.addresses.empty() ? "host" : print_address(hello.addresses.front());
  }
  return hello;
}

void ControllerLink::changed(bool connected, const std::string& reason) {
  if (!connected) {
    spdlog::warn("the session with the controller at {} ended: {}", address_, reason);
    timer_.cancel();
    return;
  }
  ++counters_.sessions;
  spdlog::info("has a session with the controller at {} as {}", address_, greeted_.id);
  addresses_read_ = Clock::now();
  taken_.clear();
  look(kStale);
}

void ControllerLink::look_later() {
  timer_.expires_after(kLook);
  timer_.async_wait([this](boost::system::error_code error) {
    if (!error && connected()) look(counters_.sessions);
  });
}

// `session`: the session that the collected reports belong to.
void ControllerLink::look(std::uint64_t session) {
  const auto now = Clock::now();
  if (now - addresses_read_ >= kLookAtAddresses) {
    addresses_read_ = now;
    if (device_addresses() != greeted_.addresses) return member_.renew("the host has other addresses");
  }
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < book_.state().slots_end; ++slot) {
    const SlotRecord& lease = book_.state().slots[slot];
    if (lease.state != SlotState::kLeased || !lease.statistics_known) continue;
    Taken& taken = taken_[slot];
    if (taken.lease_id != lease.lease_id) taken = {lease.lease_id};
    const std::uint64_t reports = book_.statistics(slot).get(Counter::kLinkStateReports);
    if (taken.asking || reports == taken.reports) continue;
    taken.reports = reports;
    ask(slot, taken, session);
  }
  look_later();
}

void ControllerLink::ask(std::uint32_t slot, Taken& taken, std::uint64_t session) {
  const auto link = find_link_(slot);
  if (link == nullptr) return;
  taken.asking = true;
  link->ask({{"do", "link_reports"}},
            [this, slot, lease = taken.lease_id, session](const std::optional<AnswerMembers>& answer) {
              if (const auto found = taken_.find(slot); found != taken_.end() && found->second.lease_id == lease) {
                found->second.asking = false;
              }
              if (answer) hand_up(control::parse_json("{" + *answer + "}"), session);
            });
}

void ControllerLink::hand_up(const nlohmann::ordered_json& answer, std::uint64_t session) {
  if (!answer.is_object()) return;  // longer than a report
  const auto rows = answer.find("rows");
  if (rows == answer.end() || !rows->is_array())
    return;  // the process does not read, or its library is another version
  for (const auto& row : *rows) {
    const auto report = control::parse_link_report(row);
    if (!report) {
      ++counters_.passive_bad;
    } else if (!connected() || session != counters_.sessions) {
      ++counters_.passive_stale;
    } else {
      ++counters_.passive_sent;
      member_.send(passive_feedback(*report));
    }
  }
}

void ControllerLink::received(const session::Message& message) {
  const auto* packet = std::get_if<session::ControlPacket>(&message);
  if (packet == nullptr) return;
  ++counters_.control_packets;
  const std::string destination = print_address(packet->destination);
  spdlog::info("the controller orders a lower rate to {}: {} links are congested", destination,
               packet->congested_links);
  for (std::uint32_t slot = io::kFirstLeasableSlot; slot < book_.state().slots_end; ++slot) {
    if (book_.state().slots[slot].state != SlotState::kLeased) continue;
    const auto link = find_link_(slot);
    if (link == nullptr) continue;
    ++(link->notify({{"do", "lower"}, {"destination", destination}}) ? counters_.control_handed
                                                                     : counters_.control_unread);
  }
}

}  // namespace brdma::daemon
