#include "rdma_cm/channels.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>

namespace brdma::provider {

int Channels::open() {
  const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  if (fd < 0) return -1;
  const int counter = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (counter < 0) {
    const int error = errno;
    ::syscall(SYS_close, fd);
    errno = error;
    return -1;
  }
  const std::lock_guard lock(mutex_);
  by_fd_[fd] = next_;
  channels_[next_++] = {1, counter};
  return fd;
}

void Channels::copied(int from, int to) {
  const std::lock_guard lock(mutex_);
  const auto found = by_fd_.find(from);
  if (found == by_fd_.end() || by_fd_.contains(to)) return;
  by_fd_[to] = found->second;
  ++channels_[found->second].descriptors;
}

std::optional<cm::ChannelNumber> Channels::closed(int fd) {
  const std::lock_guard lock(mutex_);
  const auto found = by_fd_.find(fd);
  if (found == by_fd_.end()) return std::nullopt;
  const cm::ChannelNumber channel = found->second;
  by_fd_.erase(found);
  const auto entry = channels_.find(channel);
  if (--entry->second.descriptors != 0) return std::nullopt;
  ::syscall(SYS_close, entry->second.counter);
  channels_.erase(entry);
  return channel;
}

std::optional<cm::ChannelNumber> Channels::find(int fd) {
  const std::lock_guard lock(mutex_);
  const auto found = by_fd_.find(fd);
  if (found == by_fd_.end()) return std::nullopt;
  return found->second;
}

void Channels::event_added(cm::ChannelNumber channel) {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return;
  const std::uint64_t one = 1;
  static_cast<void>(!::syscall(SYS_write, found->second.counter, &one, sizeof one));
}

// Not if another thread was in here when the program forked.
void Channels::replace() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  const int readable = lock ? ::eventfd(1, EFD_CLOEXEC) : -1;
  if (readable < 0) return;
  for (const auto& [fd, channel] : by_fd_) {
    const int flags = ::fcntl(fd, F_GETFD);
    if (flags >= 0) ::syscall(SYS_dup3, readable, fd, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
  }
  ::syscall(SYS_close, readable);
  for (const auto& [number, channel] : channels_) ::syscall(SYS_close, channel.counter);
  by_fd_.clear();
  channels_.clear();
}

// A thread that has read the counter but not fetched its event yet has a claim on one of them: then there is less to
// read, and less still if another does so meanwhile. So each read is one that does not wait, though the descriptor is
// one that does: whether it waits is the program's to say. A kernel that knows no such read is left with a count too
// many, and a reader that finds nothing, and goes on waiting.
std::uint32_t Channels::take_back_events(cm::ChannelNumber channel, std::uint32_t count) {
  const std::lock_guard lock(mutex_);
  const auto found = channels_.find(channel);
  if (found == channels_.end()) return count;
  std::uint64_t one = 0;
  const iovec into{&one, sizeof one};
  constexpr off_t kNoOffset = -1;
  for (std::uint32_t taken = 0; taken < count; ++taken) {
    if (::preadv2(found->second.counter, &into, 1, kNoOffset, RWF_NOWAIT) != sizeof one)
      return errno == EAGAIN ? taken : count;
  }
  return count;
}

}  // namespace brdma::provider
