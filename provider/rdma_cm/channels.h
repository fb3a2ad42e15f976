// rdma_cm/channels.h - event channels: librdmacm takes their descriptors for its device node. Each is an eventfd that
// counts unread events, so that programs can poll it; copies of a descriptor are the same channel.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "cm/rdma_types.h"

namespace brdma::provider {

class Channels {
 public:
  // A new channel's descriptor; -1 with errno.
  [[nodiscard]] int open();
  // A copy of a descriptor (dup).
  void copied(int from, int to);
  // The descriptor is closed. Returns the channel, if it was the last.
  [[nodiscard]] std::optional<cm::ChannelNumber> closed(int fd);
  [[nodiscard]] std::optional<cm::ChannelNumber> find(int fd);

  void event_added(cm::ChannelNumber channel);
  // In a forked child: descriptors become readable and are no channels any more. System calls only.
  void replace();
  // Of events that are to go. Returns how many no reader has a claim on. Never blocks.
  [[nodiscard]] std::uint32_t take_back_events(cm::ChannelNumber channel, std::uint32_t count);

 private:
  struct Channel {
    std::uint32_t descriptors = 0;
    int counter = -1;  // a description of our own: the program may close its descriptor at any time
  };
  std::mutex mutex_;
  std::map<int, cm::ChannelNumber> by_fd_;
  std::map<cm::ChannelNumber, Channel> channels_;
  cm::ChannelNumber next_ = 1;
};

}  // namespace brdma::provider
