#include "events/event_pipe.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

namespace brdma::provider {
namespace {

constexpr std::size_t kPipeBytesMin = 1 << 20;  // any user's limit: /proc/sys/fs/pipe-max-size

// Bypasses our own hook: these descriptors are not the program's.
void close_own(int fd) { ::syscall(SYS_close, fd); }

// Never waits, even on a blocking description. vmsplice() copies out of a pipe's read end; newer kernels (6.5) also
// have non-blocking reads, for sandboxes that forbid it.
ssize_t read_without_waiting(int fd, std::span<std::byte> into) {
  const iovec piece{into.data(), into.size()};
  const ssize_t got = ::vmsplice(fd, &piece, 1, SPLICE_F_NONBLOCK);
  if (got >= 0 || (errno != ENOSYS && errno != EPERM)) return got;
  constexpr off_t kNoOffset = -1;
  return ::preadv2(fd, &piece, 1, kNoOffset, RWF_NOWAIT);
}

}  // namespace

Result<EventPipe::Made, Status> EventPipe::make() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status(errno);
  const auto inode = inode_of(ends[0]);
  if (!inode || ::fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0) {
    const int error = errno;
    close_own(ends[0]);
    close_own(ends[1]);
    return Status(error);
  }
  return Made{std::shared_ptr<EventPipe>(new EventPipe(ends[1], *inode)), ends[0]};
}

EventPipe::~EventPipe() {
  if (writer_fd_ >= 0) close_own(writer_fd_);
}

std::optional<ino_t> EventPipe::inode_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISFIFO(status.st_mode)) return std::nullopt;
  return status.st_ino;
}

bool EventPipe::has_reader() {
  if (writer_fd_ < 0) return false;
  pollfd end{writer_fd_, 0, 0};
  if (::poll(&end, 1, 0) > 0 && (end.revents & POLLERR) != 0) unread_.store(true, std::memory_order_relaxed);
  return !unread_.load(std::memory_order_relaxed);
}

bool EventPipe::write(std::span<const std::byte> record) {
  if (writer_fd_ < 0 || unread_.load(std::memory_order_relaxed)) return false;
  waiting_.fetch_add(1, std::memory_order_relaxed);
  // Records are far shorter than PIPE_BUF: all or nothing.
  while (::write(writer_fd_, record.data(), record.size()) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN || ::fcntl(writer_fd_, F_GETPIPE_SZ) >= static_cast<int>(kPipeBytesMin) ||
        ::fcntl(writer_fd_, F_SETPIPE_SZ, static_cast<int>(kPipeBytesMin)) < 0) {
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      return false;
    }
  }
  return true;
}

bool EventPipe::read_now(int fd, std::span<std::byte> record) {
  std::uint32_t before = waiting();
  const bool got = read_without_waiting(fd, record) == static_cast<ssize_t>(record.size());
  if (got) {
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  } else {
    waiting_.compare_exchange_strong(before, 0, std::memory_order_relaxed);  // read without our knowledge
  }
  return got;
}

std::uint32_t EventPipe::purge(int fd, std::size_t record_bytes,
                               const std::function<bool(std::span<const std::byte>)>& is_ours) {
  if (!has_end(fd)) return 0;
  const int saved_errno = errno;  // the program's error must survive
  std::vector<std::byte> kept;
  std::vector<std::byte> record(record_bytes);
  std::uint32_t purged = 0;
  for (;;) {
    const ssize_t got = read_without_waiting(fd, record);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(record_bytes)) break;
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    if (is_ours(record)) {
      ++purged;
    } else {
      kept.insert(kept.end(), record.begin(), record.end());
    }
  }
  for (std::size_t at = 0; at < kept.size(); at += record_bytes) {
    // There was room for them a moment ago.
    (void)write(std::span(kept).subspan(at, record_bytes));
  }
  errno = saved_errno;
  return purged;
}

void EventPipe::replace(int fd, std::span<const std::byte> records) {
  if (writer_fd_ >= 0) close_own(writer_fd_);
  writer_fd_ = -1;
  if (!has_end(fd)) return;
  const int status_flags = ::fcntl(fd, F_GETFL), descriptor_flags = ::fcntl(fd, F_GETFD);
  int ends[2];
  (void)::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    close_own(fd);  // no descriptor left: waiters get EBADF
    return;
  }
  if (::write(ends[1], records.data(), records.size()) < 0) {
    // Longer than the pipe: then only the end of file comes.
  }
  if ((status_flags & O_NONBLOCK) == 0) ::fcntl(ends[0], F_SETFL, 0);
  ::syscall(SYS_dup3, ends[0], fd, (descriptor_flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
  close_own(ends[0]);
  close_own(ends[1]);
}

}  // namespace brdma::provider
