#include "cm/rdma/event_channels.h"

#include <algorithm>

namespace brdma::cm {

void EventChannels::queue(ChannelNumber channel, const RdmaEvent& event) {
  channels_[channel].push_back(event);
  channels_[channel].back().since = since_;
  host_.event_added(channel);
}

void EventChannels::notify(const RdmaId& id, RdmaEventKind kind, std::int32_t status) {
  if (id.state == IdState::kRequested) return;
  queue(id.channel, {.kind = kind, .id = id.number, .user = id.user, .counted = id.number, .status = status});
}

void EventChannels::queue_request(const RdmaId& child, RdmaEvent event) {
  RdmaId& listener = *ids_.find(*child.listener);
  ++listener.waiting;
  event.kind = RdmaEventKind::kConnectRequest;
  event.id = child.number;
  event.user = listener.user;
  event.counted = listener.number;
  queue(listener.channel, event);
}

std::optional<RdmaEvent> EventChannels::fetch(ChannelNumber channel) {
  auto& events = channels_[channel];
  if (events.empty()) return std::nullopt;
  const RdmaEvent event = events.front();
  events.pop_front();
  if (RdmaId* const counted = ids_.find(event.counted)) ++counted->events_reported;
  if (event.kind == RdmaEventKind::kConnectRequest) {
    if (RdmaId* const listener = ids_.find(event.counted)) --listener->waiting;
    if (RdmaId* const child = ids_.find(event.id)) child->listener.reset();
  }
  return event;
}

bool EventChannels::has_fresh(const RdmaId& id, Instant now) {
  constexpr Duration kFresh = 1_ms;
  const auto& events = channels_[id.channel];
  return std::any_of(events.begin(), events.end(),
                     [&](const RdmaEvent& event) { return event.counted == id.number && now - event.since < kFresh; });
}

// A child that ends before its request was fetched takes that request away from its listener's.
std::uint32_t EventChannels::drop(const RdmaId& id, std::vector<IdNumber>& orphans) {
  using Kind = RdmaEventKind;
  const IdNumber number = id.number;
  const auto is_its_request = [number](const RdmaEvent& event) {
    return event.kind == Kind::kConnectRequest && event.id == number;
  };
  take_back(id.channel, is_its_request, [this](const RdmaEvent& event) {
    if (RdmaId* const listener = ids_.find(event.counted)) --listener->waiting;
  });
  const auto is_its_own = [number](const RdmaEvent& event) { return event.counted == number; };
  const std::uint32_t left = take_back(id.channel, is_its_own, [&orphans](const RdmaEvent& event) {
    if (event.kind == Kind::kConnectRequest) orphans.push_back(event.id);
  });
  if (left != 0) leave_to_readers(id);
  return left;
}

// Another identifier may get its number before they are fetched.
void EventChannels::leave_to_readers(const RdmaId& id) {
  for (RdmaEvent& event : channels_[id.channel]) {
    if (event.counted != id.number) continue;
    event.counted = kNobody;
    if (event.kind != RdmaEventKind::kConnectRequest) continue;
    if (RdmaId* const child = ids_.find(event.id)) child->listener.reset();
  }
}

std::uint32_t EventChannels::move(RdmaId& id, ChannelNumber to) {
  const std::uint32_t left = take_back(
      id.channel, [&id](const RdmaEvent& event) { return event.counted == id.number; },
      [this, to](const RdmaEvent& event) { queue(to, event); });
  id.channel = to;
  for (auto& [other, child] : ids_.all()) {
    if (child.listener == id.number) child.channel = to;
  }
  return left;
}

std::uint32_t EventChannels::drop_group(ChannelNumber channel, IdNumber membership) {
  return take_back(
      channel, [membership](const RdmaEvent& event) { return event.group == membership; }, [](const RdmaEvent&) {});
}

std::uint32_t EventChannels::take_back(ChannelNumber channel, const Gone& gone, const Take& take) {
  auto& events = channels_[channel];
  const auto count = static_cast<std::uint32_t>(std::count_if(events.begin(), events.end(), gone));
  if (count == 0) return 0;
  const std::uint32_t stay = count - host_.take_back_events(channel, count);
  std::uint32_t met = 0;
  for (auto event = events.begin(); event != events.end();) {
    if (!gone(*event) || met++ < stay) {
      ++event;
      continue;
    }
    take(*event);
    event = events.erase(event);
  }
  return stay;
}

}  // namespace brdma::cm
