// verbs/use_record.h - for `brdma run --require`: the first queue pair of a process leaves a line in the file that an
// environment variable names. Without the variable it costs one look into the environment, once a process.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace brdma::provider {

// Not a setting: it has a meaning for one run only.
inline constexpr char kUseVariable[] = "BITMAPRDMA_USE_FILE";

// Appends "PID\n" to an existing plain file of that name; anything else is left alone. Errors are no matter of the
// program's.
inline void append_use(const char* path) {
  const int fd = ::open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return;
  struct stat status {};
  if (::fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
    std::array<char, 16> line{};
    const int length = std::snprintf(line.data(), line.size(), "%d\n", static_cast<int>(::getpid()));
    if (::write(fd, line.data(), static_cast<std::size_t>(length)) < 0) static_cast<void>(0);
  }
  ::close(fd);
}

inline void record_queue_pair() {
  static std::once_flag recorded;
  std::call_once(recorded, [] {
    if (const char* const path = ::secure_getenv(kUseVariable)) append_use(path);
  });
}

}  // namespace brdma::provider
