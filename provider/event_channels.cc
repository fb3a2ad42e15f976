#include "event_channels.h"

#include <pthread.h>

#include <cerrno>
#include <cstddef>
#include <map>
#include <mutex>

#include "preload/descriptors.h"

namespace brdma::provider {
namespace {

struct Channels {
  std::mutex lock;
  std::map<ino_t, std::shared_ptr<EventPipe>> by_inode;
  std::size_t look_at = 16;  // with so many of them: whether all can still be read

  // Without those that were closed behind our back (by a system call, or under a number that fcntl() gave).
  void drop_unread() {
    std::erase_if(by_inode, [](const auto& entry) { return !entry.second->has_reader(); });
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
    all.by_inode[made.value().pipe->inode()] = made.value().pipe;
    preload::node_marks.mark(made.value().fd, preload::Node::kEvents);
  }
  return made;
}

std::shared_ptr<EventPipe> find_event_channel(int fd) {
  const std::lock_guard held(channels().lock);
  const auto inode = EventPipe::inode_of(fd);
  const auto found = inode ? channels().by_inode.find(*inode) : channels().by_inode.end();
  return found == channels().by_inode.end() ? nullptr : found->second;
}

void event_channel_closed(const std::shared_ptr<EventPipe>& channel) {
  const std::lock_guard held(channels().lock);
  if (!channel->has_reader()) channels().by_inode.erase(channel->inode());
}

}  // namespace brdma::provider
