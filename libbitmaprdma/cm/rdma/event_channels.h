// cm/rdma/event_channels.h - the events that wait on each channel of the program, and the counts that follow them: how
// many of an identifier's were fetched, how many requests of a listener were not.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "cm/rdma_host.h"
#include "cm/rdma_id.h"

namespace brdma::cm {

class EventChannels {
 public:
  // Both outlive it.
  EventChannels(RdmaHost& host, IdTable& ids) : host_(host), ids_(ids) {}

  // Of the events that are queued from now on: the network has brought something, or a deadline has passed.
  void set_time(Instant now) { since_ = now; }
  void queue(ChannelNumber channel, const RdmaEvent& event);
  // An event without parameters. The program does not know a child that it has not accepted: there are none of it.
  void notify(const RdmaId& id, RdmaEventKind kind, std::int32_t status = 0);
  // A new child is reported to its listener. `event`: its parameters.
  void queue_request(const RdmaId& child, RdmaEvent event);

  [[nodiscard]] std::optional<RdmaEvent> fetch(ChannelNumber channel);
  // One of the identifier's events has come within the last millisecond, and waits.
  [[nodiscard]] bool has_fresh(const RdmaId& id, Instant now);

  // Takes away those of an identifier that ends. Appends to `orphans` the children that the program will not see.
  // Returns how many of its events will be fetched nevertheless: readers have taken the count for them.
  std::uint32_t drop(const RdmaId& id, std::vector<IdNumber>& orphans);
  // The identifier and its children go to another channel, with their events. Returns as drop().
  std::uint32_t move(RdmaId& id, ChannelNumber to);
  // Takes away those of a multicast membership. Returns as drop().
  std::uint32_t drop_group(ChannelNumber channel, IdNumber membership);
  void close(ChannelNumber channel) { channels_.erase(channel); }

 private:
  // Takes the events that are `gone` out of the channel's queue, each by `take`. Returns how many stay, the first ones:
  // readers have taken the count for them.
  using Gone = std::function<bool(const RdmaEvent&)>;
  using Take = std::function<void(const RdmaEvent&)>;
  std::uint32_t take_back(ChannelNumber channel, const Gone& gone, const Take& take);
  void leave_to_readers(const RdmaId& id);

  RdmaHost& host_;
  IdTable& ids_;
  std::map<ChannelNumber, std::deque<RdmaEvent>> channels_;
  Instant since_;
};

}  // namespace brdma::cm
