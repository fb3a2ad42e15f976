#include "events/channel_sleep.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <span>

#include "events/event_channels.h"
#include "io/system/poll_open.h"
#include "preload/real.h"

namespace brdma::provider {
namespace {

constinit preload::Real<ssize_t(int, void*, std::size_t)> real_read{"read"};
constinit preload::Real<int(int, int, int, epoll_event*)> real_epoll_ctl{"epoll_ctl"};

constexpr std::size_t kRecord = sizeof(void*);

// Events that this thread has taken from the channel that it reads.
struct Taking {
  const EventPipe* channel = nullptr;
  std::array<const void*, 8> records{};
  std::size_t count = 0;
};
thread_local Taking taking;

bool does_not_block(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; }

// A signal has ended a wait that the kernel, unlike read(2), never restarts. With SA_RESTART it would have; which
// handler ran is unknown.
bool signals_restart() {
  bool some = false;
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0) continue;
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) continue;
    if ((action.sa_flags & SA_RESTART) == 0) return false;
    some = true;
  }
  return some;
}

// What the program reads.
struct Descriptor {
  int fd;
  bool named;  // as read_channel()
  [[nodiscard]] bool is_end_of(const EventPipe& pipe) const { return named || pipe.has_end(fd); }
};

// Handles packets: one event for the program, further ones go into the pipe; all of them, if the descriptor is another
// file by now. False: none for the program.
bool take_events(const Descriptor& from, ChannelSleep& sleep, EventPipe& pipe, void* into, bool then_sleeps,
                 bool& over) {
  taking = {.channel = &pipe};
  over = !sleep.attend(then_sleeps);
  taking.channel = nullptr;
  if (taking.count == 0) return false;
  const std::size_t given = from.is_end_of(pipe) ? 1 : 0;
  if (given == 1) std::memcpy(into, taking.records.data(), kRecord);
  for (std::size_t i = given; i < taking.count; ++i) (void)pipe.write(std::as_bytes(std::span(&taking.records[i], 1)));
  return given == 1;
}

struct ChannelRead {
  // kLookAgain: an event has come meanwhile.
  enum class Then : std::uint8_t { kReturn, kRead, kWait, kLookAgain } then = Then::kReturn;
  ssize_t result = 0;
  std::array<int, 2> packets{-1, -1};
};

// Waits until an event (0) or a packet (1) comes. -1, with errno: a signal came.
int wait_for_either(int fd, const std::array<int, 2>& packets) {
  std::array<pollfd, 3> fds{pollfd{fd, POLLIN, 0}, pollfd{packets[0], POLLIN, 0}, pollfd{packets[1], POLLIN, 0}};
  while (io::poll_open(fds, -1) < 0) {
    if (errno != EINTR || !signals_restart()) return -1;
  }
  return fds[0].revents != 0 ? 0 : 1;
}

ChannelRead begin_read(const Descriptor& from, void* into, std::size_t count, ino_t& inode);

}  // namespace

ChannelSleep::~ChannelSleep() {
  leave();
  for (const Watcher& watcher : watchers_) ::syscall(SYS_close, watcher.epoll);
}

void ChannelSleep::join(Context& context) {
  const std::lock_guard held(lock_);
  context_ = &context;
  packets_ = context.packet_descriptors();
  for (const Watcher& watcher : watchers_) control(EPOLL_CTL_ADD, watcher.epoll, watcher.event);
}

void ChannelSleep::leave() {
  const std::lock_guard held(lock_);
  for (const Watcher& watcher : watchers_) control(EPOLL_CTL_DEL, watcher.epoll, watcher.event);
  packets_ = {-1, -1};
  context_ = nullptr;
}

// lock_ held.
void ChannelSleep::control(int operation, int epoll, epoll_event event) {
  for (const int fd : packets_) {
    if (fd >= 0) (void)real_epoll_ctl.get()(epoll, operation, fd, &event);
  }
}

// Likewise.
void ChannelSleep::unwatch(int number) {
  std::erase_if(watchers_, [this, number](const Watcher& watcher) {
    if (watcher.number != number) return false;
    control(EPOLL_CTL_DEL, watcher.epoll, watcher.event);
    ::syscall(SYS_close, watcher.epoll);
    return true;
  });
}

bool ChannelSleep::attend(bool then_sleeps) {
  const std::lock_guard held(lock_);
  if (context_ == nullptr) return false;
  context_->attend(edges_, then_sleeps);
  return true;
}

std::array<int, 2> ChannelSleep::packet_descriptors() {
  const std::lock_guard held(lock_);
  return packets_;
}

bool ChannelSleep::is_watched() {
  const std::lock_guard held(lock_);
  return !watchers_.empty();
}

void ChannelSleep::watched(int epoll, int operation, const epoll_event& event) {
  const std::lock_guard held(lock_);
  if (operation == EPOLL_CTL_ADD) {
    unwatch(epoll);  // a set that the program has closed since
    if ((event.events & EPOLLIN) == 0 || (event.events & (EPOLLONESHOT | EPOLLEXCLUSIVE)) != 0) return;
    const int own = ::fcntl(epoll, F_DUPFD_CLOEXEC, 0);
    if (own < 0) return;
    watchers_.push_back({epoll, own, event});
    control(EPOLL_CTL_ADD, own, event);
  } else if (operation == EPOLL_CTL_DEL) {
    unwatch(epoll);
  } else {
    for (Watcher& watcher : watchers_) {
      if (watcher.number != epoll) continue;
      watcher.event = event;
      control(EPOLL_CTL_MOD, watcher.epoll, event);
    }
  }
  if ((event.events & EPOLLET) != 0) edges_ = true;
}

namespace {

// And its next read begins with what it is now.
ChannelRead another_file(int fd) {
  (void)find_sleeping_channel(fd);
  return {.then = ChannelRead::Then::kRead};
}

// There is no event.
ChannelRead wait_unless(const Descriptor& from, ChannelSleep& sleep, bool watched, bool begins) {
  if (watched && !from.named) return {.then = ChannelRead::Then::kRead};
  const int flags = watched && begins ? ::fcntl(from.fd, F_GETFL) : 0;
  if (flags < 0) return {.then = ChannelRead::Then::kRead};
  if ((flags & O_NONBLOCK) != 0) {
    errno = EAGAIN;
    return {.result = -1};
  }
  return {.then = ChannelRead::Then::kWait, .packets = sleep.packet_descriptors()};
}

// `inode`: of the channel, 0 at first. Whether the call may wait is decided at its beginning, as in read(2). Whether
// the descriptor still is the channel is asked once there is an event: for another file, all before it does no harm.
ChannelRead begin_read(const Descriptor& from, void* into, std::size_t count, ino_t& inode) {
  const bool begins = inode == 0;
  const auto channel = begins ? recall_sleeping_channel(from.fd) : find_sleeping_channel(inode);
  if (channel.sleep == nullptr || count < kRecord || into == nullptr) return {.then = ChannelRead::Then::kRead};
  inode = channel.pipe->inode();
  if (channel.pipe->waiting() > 0) {
    if (!from.is_end_of(*channel.pipe)) return another_file(from.fd);
    if (channel.pipe->read_now(from.fd, std::span(static_cast<std::byte*>(into), kRecord))) return {.result = kRecord};
  }
  const bool watched = channel.sleep->is_watched();
  // The channel alone wakes it, if anything.
  if (begins && !watched && does_not_block(from.fd)) return {.then = ChannelRead::Then::kRead};
  bool over = false;
  if (take_events(from, *channel.sleep, *channel.pipe, into, !watched, over)) return {.result = kRecord};
  if (over) return {.then = ChannelRead::Then::kRead};
  if (channel.pipe->waiting() > 0) return {.then = ChannelRead::Then::kLookAgain};
  return wait_unless(from, *channel.sleep, watched, begins);
}

}  // namespace

// Here and in wait_for_either() a thread may be cancelled: no object with a destructor may be alive. The C library
// unwinds with another copy of the unwinder than ours.
ssize_t read_channel(int fd, void* into, std::size_t count, bool named) {
  ino_t inode = 0;
  for (;;) {
    const ChannelRead begun = begin_read({fd, named}, into, count, inode);
    if (begun.then == ChannelRead::Then::kReturn) return begun.result;
    if (begun.then == ChannelRead::Then::kRead) return real_read.get()(fd, into, count);
    if (begun.then == ChannelRead::Then::kLookAgain) continue;
    const int ready = wait_for_either(fd, begun.packets);
    if (ready < 0) return -1;
    if (ready == 0) return real_read.get()(fd, into, count);
  }
}

void channel_watched(int epoll, int operation, int fd, const epoll_event* event) {
  if (event == nullptr && operation != EPOLL_CTL_DEL) return;
  const int saved_errno = errno;
  const auto channel = find_sleeping_channel(fd);
  if (channel.sleep != nullptr && (operation != EPOLL_CTL_ADD || does_not_block(fd)))
    channel.sleep->watched(epoll, operation, event != nullptr ? *event : epoll_event{});
  errno = saved_errno;
}

bool taken_by_reader(const EventPipe& channel, const void* record) {
  if (taking.channel != &channel || taking.count == taking.records.size()) return false;
  taking.records[taking.count++] = record;
  return true;
}

}  // namespace brdma::provider
