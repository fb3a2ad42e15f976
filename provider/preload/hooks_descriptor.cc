// Hooks: writes to our nodes and tracking of their descriptors.
#include <linux/close_range.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "events/channel_sleep.h"
#include "events/event_channels.h"
#include "plugin/libibverbs.h"
#include "preload/descriptors.h"
#include "preload/real.h"
#include "preload/uverbs_commands.h"
#include "preload/view.h"
#include "rdma_cm/server.h"
#include "rdma_netlink/socket.h"

using brdma::preload::Node;
using brdma::preload::node_marks;

namespace {

BRDMA_REAL(read);
BRDMA_REAL(write);
BRDMA_REAL(epoll_ctl);
BRDMA_REAL(close);
BRDMA_REAL(dup);
BRDMA_REAL(dup2);
BRDMA_REAL(dup3);
BRDMA_REAL(closefrom);
BRDMA_REAL(close_range);

std::atomic<pid_t> owner_pid{0};

// A child made by vfork() shares our memory but not our descriptors: those it closes are still open here.
bool marks_are_ours() { return owner_pid.load(std::memory_order_relaxed) == ::getpid(); }

// Descriptors that are about to be closed. Their marks go first, as another thread may get their numbers. Work after
// the close is done at the end.
class Closing {
 public:
  explicit Closing(int fd) {
    if (node_marks.is_marked(fd) && marks_are_ours()) [[unlikely]]
      forget(fd);
  }
  Closing(unsigned first, unsigned last) {
    if (marks_are_ours()) node_marks.for_each(first, last, [this](int fd) { forget(fd); });
  }
  ~Closing() {
    if (events_.empty()) [[likely]]
      return;
    const int saved_errno = errno;
    for (const auto& channel : events_) brdma::provider::event_channel_closed(channel);
    errno = saved_errno;
  }
  Closing(const Closing&) = delete;
  Closing& operator=(const Closing&) = delete;

 private:
  void forget(int fd) {
    const Node node = node_marks.node(fd);
    node_marks.clear(fd);
    if (node == Node::kRdmaCm) brdma::provider::cm_descriptor_closed(fd);
    if (node == Node::kNetlink) brdma::provider::rdma_netlink_closed(fd);
    if (node != Node::kEvents) return;
    if (auto channel = brdma::provider::event_channel_of_closing(fd)) events_.push_back(std::move(channel));
  }
  std::vector<std::shared_ptr<brdma::provider::EventPipe>> events_;
};

void copied(int from, int to) {
  if (!node_marks.is_marked(from) || !marks_are_ours()) return;
  node_marks.copy(from, to);
  if (node_marks.node(from) == Node::kRdmaCm) brdma::provider::cm_descriptor_copied(from, to);
}

// The mark may be stale: the descriptor may have been closed without our knowledge and be a file now. Checked by the
// opened file, not by its path: the program may have changed its root or its user since.
bool is_node(int fd) {
  struct stat opened {};
  return ::fstat(fd, &opened) == 0 && S_ISCHR(opened.st_mode) && opened.st_rdev == brdma::preload::node_device();
}

// Likewise: an eventfd has no file type. Not our own fstat, which returns another type to programs.
bool is_channel(int fd) {
  struct stat opened {};
  return ::syscall(SYS_fstat, fd, &opened) == 0 && (opened.st_mode & S_IFMT) == 0;
}

// Before main, so that no signal handler is the first to call dlsym.
__attribute__((constructor)) void prepare() {
  real_read.resolve();
  real_write.resolve();
  real_epoll_ctl.resolve();
  real_close.resolve();
  real_dup.resolve();
  real_dup2.resolve();
  real_dup3.resolve();
  real_closefrom.resolve();
  real_close_range.resolve();
  owner_pid.store(::getpid(), std::memory_order_relaxed);
  ::pthread_atfork(nullptr, nullptr, [] { owner_pid.store(::getpid(), std::memory_order_relaxed); });
}

}  // namespace

BRDMA_HOOK ssize_t write(int fd, const void* bytes, size_t count) {
  const Node node = node_marks.node(fd);
  if (node != Node::kNone) [[unlikely]] {
    if (node == Node::kUverbs && is_node(fd)) return brdma::preload::uverbs_command(bytes, count);
    if (node == Node::kRdmaCm && is_channel(fd)) return brdma::provider::cm_write(fd, bytes, count);
    if (node == Node::kNetlink && brdma::provider::is_rdma_netlink(fd)) {
      const iovec part{const_cast<void*>(bytes), count};
      return brdma::provider::rdma_netlink_send(fd, &part, 1, nullptr, 0);
    }
  }
  return real_write.get()(fd, bytes, count);
}

// A waiting record is read from the pipe as usual; otherwise the read takes packets (channel_sleep.h).
BRDMA_HOOK ssize_t read(int fd, void* into, size_t count) {
  const Node node = node_marks.node(fd);
  if (node == Node::kEvents) [[unlikely]]
    return brdma::provider::read_channel(fd, into, count, brdma::provider::Libibverbs::is_get_cq_event(BRDMA_CALLER));
  if (node == Node::kNetlink && brdma::provider::is_rdma_netlink(fd)) [[unlikely]]
    brdma::provider::rdma_netlink_refill(fd);
  return real_read.get()(fd, into, count);
}

BRDMA_HOOK int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  const int done = real_epoll_ctl.get()(epoll, operation, fd, event);
  if (done == 0 && node_marks.node(fd) == Node::kEvents) [[unlikely]]
    brdma::provider::channel_watched(epoll, operation, fd, event);
  return done;
}

BRDMA_HOOK int close(int fd) {
  const Closing closing(fd);
  return real_close.get()(fd);
}

BRDMA_HOOK int dup(int fd) noexcept {
  const int copy = real_dup.get()(fd);
  if (copy >= 0) copied(fd, copy);
  return copy;
}

BRDMA_HOOK int dup2(int from, int to) noexcept {
  const Closing closing(from != to ? to : -1);
  const int copy = real_dup2.get()(from, to);
  if (copy >= 0 && from != to) copied(from, to);
  return copy;
}

BRDMA_HOOK int dup3(int from, int to, int flags) noexcept {
  const Closing closing(from != to ? to : -1);
  const int copy = real_dup3.get()(from, to, flags);
  if (copy >= 0) copied(from, to);
  return copy;
}

BRDMA_HOOK void closefrom(int first) noexcept {
  const Closing closing(first < 0 ? 0 : static_cast<unsigned>(first), ~0u);
  real_closefrom.get()(first);
}

BRDMA_HOOK int close_range(unsigned first, unsigned last, int flags) noexcept {
  std::optional<Closing> closing;
  if ((static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) == 0 && first <= last) closing.emplace(first, last);
  return real_close_range.get()(first, last, flags);
}
