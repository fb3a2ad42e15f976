#include "event_pipe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

namespace brdma::provider {
namespace {

constexpr std::size_t kPipeBytesMin = 1 << 20;  // what any user may have: /proc/sys/fs/pipe-max-size

int reopen(int fd, int flags) {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return ::open(path, flags | O_CLOEXEC);
}

}  // namespace

Result<int, Status> make_event_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Status(errno);
  const int fd = reopen(ends[0], O_RDWR);
  const int error = errno;
  ::close(ends[0]);
  ::close(ends[1]);
  if (fd < 0) return Status(error);
  return fd;
}

Result<int, Status> open_writer(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return Status(errno);
  if (!S_ISFIFO(status.st_mode)) return Status(EINVAL);
  const int writer = reopen(fd, O_RDWR | O_NONBLOCK);
  if (writer < 0) return Status(errno);
  return writer;
}

bool write_record(int writer_fd, std::span<const std::byte> record) {
  // Records are far shorter than PIPE_BUF: all or nothing.
  while (::write(writer_fd, record.data(), record.size()) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN || ::fcntl(writer_fd, F_GETPIPE_SZ) >= static_cast<int>(kPipeBytesMin) ||
        ::fcntl(writer_fd, F_SETPIPE_SZ, static_cast<int>(kPipeBytesMin)) < 0) {
      return false;
    }
  }
  return true;
}

std::uint32_t purge_records(int writer_fd, std::size_t record_bytes,
                            const std::function<bool(std::span<const std::byte>)>& is_ours) {
  std::vector<std::byte> kept;
  std::vector<std::byte> record(record_bytes);
  std::uint32_t purged = 0;
  for (;;) {
    const ssize_t got = ::read(writer_fd, record.data(), record_bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got != static_cast<ssize_t>(record_bytes)) break;
    if (is_ours(record)) {
      ++purged;
    } else {
      kept.insert(kept.end(), record.begin(), record.end());
    }
  }
  for (std::size_t at = 0; at < kept.size(); at += record_bytes) {
    // There was room for them a moment ago.
    (void)write_record(writer_fd, std::span(kept).subspan(at, record_bytes));
  }
  return purged;
}

}  // namespace brdma::provider
