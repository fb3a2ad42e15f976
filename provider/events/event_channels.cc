#include "events/event_channels.h"

#include <pthread.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "preload/descriptors.h"

namespace brdma::provider {
namespace {

struct Channel {
  std::shared_ptr<EventPipe> pipe;
  int fd = -1;                   // the program's, when it last made a completion queue
  const void* device = nullptr;  // of its queues
  Context* context = nullptr;    // likewise
  std::set<const void*> queues{};
  std::shared_ptr<ChannelSleep> sleep{};  // of completion channels
  enum class Sleeper : std::uint8_t { kNotYet, kYes, kOneOfSeveral } sleeper = Sleeper::kNotYet;
};

struct Channels {
  std::mutex lock;
  std::map<ino_t, Channel> by_inode;
  std::unordered_map<int, ino_t> by_number;  // as last seen: completion channels
  std::size_t look_at = 16;                  // size at which to check again whether all can still be read

  // The program sleeps on this one. If it sleeps on several of one context, packets would wake all sleepers: then the
  // thread serves all.
  void is_slept_on(Channel& sleeper) {
    if (sleeper.context == nullptr || sleeper.sleeper != Channel::Sleeper::kNotYet) return;
    sleeper.sleeper = Channel::Sleeper::kYes;
    for (auto& [inode, channel] : by_inode) {
      if (&channel == &sleeper || channel.context != sleeper.context) continue;
      if (channel.sleeper == Channel::Sleeper::kNotYet) continue;
      channel.sleep->leave();
      channel.sleeper = sleeper.sleeper = Channel::Sleeper::kOneOfSeveral;
    }
    if (sleeper.sleeper == Channel::Sleeper::kYes) sleeper.sleep->join(*sleeper.context);
  }

  // Removes those closed without our knowledge (by a system call, or under a number from fcntl()).
  void drop_unread() {
    std::erase_if(by_inode, [](const auto& entry) { return !entry.second.pipe->has_reader(); });
    look_at = 16 + 2 * by_inode.size();
  }
};

void forked();

// Never destroyed: hooks run until the very end of the process. A thread may be in it while another one forks, and the
// child closes descriptors.
Channels& channels() {
  static auto* const instance = [] {
    auto* const made = new Channels;
    ::pthread_atfork([] { channels().lock.lock(); }, [] { channels().lock.unlock(); }, [] { forked(); });
    return made;
  }();
  return *instance;
}

// The list's lock held. Null: not, or no longer, a pipe of ours.
Channel* find(ino_t inode) {
  const auto found = channels().by_inode.find(inode);
  return found == channels().by_inode.end() ? nullptr : &found->second;
}

Channel* find(int fd) {
  const auto inode = EventPipe::inode_of(fd);
  return inode ? find(*inode) : nullptr;
}

// Likewise. Nulls: no completion channel.
SleepingChannel sleeping(Channel* channel) {
  if (channel == nullptr || channel->sleep == nullptr) return {};
  channels().is_slept_on(*channel);
  return {channel->pipe, channel->sleep};
}

// In the child: a thread of the parent may have been in a sleep's lock, and the parent's epoll sets must keep their
// sockets. So a sleep is left as it is, never destroyed.
void forked() {
  for (auto& [inode, channel] : channels().by_inode) {
    if (channel.sleep == nullptr) continue;
    (void)new std::shared_ptr<ChannelSleep>(std::move(channel.sleep));
    channel.sleep = std::make_shared<ChannelSleep>();
    channel.sleeper = Channel::Sleeper::kOneOfSeveral;
  }
  channels().lock.unlock();
}

}  // namespace

Result<EventPipe::Made, Status> make_event_channel(EventsOf what) {
  const std::lock_guard held(channels().lock);
  Channels& all = channels();
  if (all.by_inode.size() >= all.look_at) all.drop_unread();
  auto made = EventPipe::make();
  if (!made && made.reason().error() == EMFILE) {
    all.drop_unread();
    made = EventPipe::make();
  }
  if (made) {
    Channel& channel = all.by_inode[made.value().pipe->inode()] = {.pipe = made.value().pipe, .fd = made.value().fd};
    if (what == EventsOf::kCompletions) channel.sleep = std::make_shared<ChannelSleep>();
    all.by_number[made.value().fd] = made.value().pipe->inode();
    preload::node_marks.mark(made.value().fd, preload::Node::kEvents);
  }
  return made;
}

std::shared_ptr<EventPipe> event_channel_of_closing(int fd) {
  const std::lock_guard held(channels().lock);
  channels().by_number.erase(fd);
  const Channel* const channel = find(fd);
  return channel == nullptr ? nullptr : channel->pipe;
}

std::shared_ptr<EventPipe> find_completion_channel(int fd) {
  const std::lock_guard held(channels().lock);
  const Channel* const channel = find(fd);
  return channel == nullptr || channel->sleep == nullptr ? nullptr : channel->pipe;
}

SleepingChannel find_sleeping_channel(int fd) {
  const std::lock_guard held(channels().lock);
  const SleepingChannel channel = sleeping(find(fd));
  if (channel.sleep != nullptr) {
    channels().by_number[fd] = channel.pipe->inode();
  } else {
    channels().by_number.erase(fd);
  }
  return channel;
}

SleepingChannel find_sleeping_channel(ino_t inode) {
  const std::lock_guard held(channels().lock);
  return sleeping(find(inode));
}

SleepingChannel recall_sleeping_channel(int fd) {
  {
    const std::lock_guard held(channels().lock);
    const auto seen = channels().by_number.find(fd);
    if (seen != channels().by_number.end())
      if (Channel* const channel = find(seen->second); channel != nullptr) return sleeping(channel);
  }
  return find_sleeping_channel(fd);
}

void event_channel_joined(const EventPipe& channel, int fd, const void* queue, const void* device, Context* context) {
  const std::lock_guard held(channels().lock);
  const auto found = channels().by_inode.find(channel.inode());
  if (found == channels().by_inode.end()) return;
  found->second.fd = fd;
  found->second.device = device;
  found->second.context = context;
  found->second.queues.insert(queue);
  if (found->second.sleep->is_watched()) channels().is_slept_on(found->second);
}

void event_channel_left(const EventPipe& channel, const void* queue) {
  const std::lock_guard held(channels().lock);
  const auto found = channels().by_inode.find(channel.inode());
  if (found == channels().by_inode.end()) return;
  found->second.queues.erase(queue);
  if (!found->second.queues.empty()) return;
  found->second.sleep->leave();
  found->second.context = nullptr;
  found->second.sleeper = Channel::Sleeper::kNotYet;
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
