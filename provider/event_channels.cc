#include "event_channels.h"

#include <pthread.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <vector>

#include "preload/descriptors.h"

namespace brdma::provider {
namespace {

struct Channel {
  std::shared_ptr<EventPipe> pipe;
  int fd = -1;                   // as the program had it when it last made a completion queue
  const void* device = nullptr;  // of its queues
  std::set<const void*> queues{};
};

struct Channels {
  std::mutex lock;
  std::map<ino_t, Channel> by_inode;
  std::size_t look_at = 16;  // with so many of them: whether all can still be read

  // Without those that were closed behind our back (by a system call, or under a number that fcntl() gave).
  void drop_unread() {
    std::erase_if(by_inode, [](const auto& entry) { return !entry.second.pipe->has_reader(); });
    look_at = 16 + 2 * by_inode.size();
  }
};

// Never destroyed: hooks run until the very end of the process. A thread may be in it while another one forks, and the
// child closes descriptors.
Channels& channels() {
  static auto* const instance = [] {
    auto* const made = new Channels;
    ::pthread_atfork([] { channels().lock.lock(); }, [] { channels().lock.unlock(); },
                     [] { channels().lock.unlock(); });
    return made;
  }();
  return *instance;
}

}  // namespace

Result<EventPipe::Made, Status> make_event_channel() {
  const std::lock_guard held(channels().lock);
  Channels& all = channels();
  if (all.by_inode.size() >= all.look_at) all.drop_unread();
  auto made = EventPipe::make();
  if (!made && made.reason().error() == EMFILE) {
    all.drop_unread();
    made = EventPipe::make();
  }
  if (made) {
    all.by_inode[made.value().pipe->inode()] = {.pipe = made.value().pipe, .fd = made.value().fd};
    preload::node_marks.mark(made.value().fd, preload::Node::kEvents);
  }
  return made;
}

std::shared_ptr<EventPipe> find_event_channel(int fd) {
  const std::lock_guard held(channels().lock);
  const auto inode = EventPipe::inode_of(fd);
  const auto found = inode ? channels().by_inode.find(*inode) : channels().by_inode.end();
  return found == channels().by_inode.end() ? nullptr : found->second.pipe;
}

void event_channel_joined(const EventPipe& channel, int fd, const void* queue, const void* device) {
  const std::lock_guard held(channels().lock);
  const auto found = channels().by_inode.find(channel.inode());
  if (found == channels().by_inode.end()) return;
  found->second.fd = fd;
  found->second.device = device;
  found->second.queues.insert(queue);
}

void event_channel_left(const EventPipe& channel, const void* queue) {
  const std::lock_guard held(channels().lock);
  const auto found = channels().by_inode.find(channel.inode());
  if (found != channels().by_inode.end()) found->second.queues.erase(queue);
}

void replace_event_channels(const void* device) {
  const std::lock_guard held(channels().lock);
  std::erase_if(channels().by_inode, [device](const auto& entry) {
    const Channel& channel = entry.second;
    if (channel.device != device) return false;
    const std::vector<const void*> records(channel.queues.begin(), channel.queues.end());
    channel.pipe->replace(channel.fd, std::as_bytes(std::span(records)));
    return true;
  });
}

void event_channel_closed(const std::shared_ptr<EventPipe>& channel) {
  const std::lock_guard held(channels().lock);
  if (!channel->has_reader()) channels().by_inode.erase(channel->inode());
}

}  // namespace brdma::provider
