// event_pipe.h - what stands behind ibv_comp_channel::fd and ibv_context::async_fd: a pipe. The program has the end
// that is read, we keep the end that is written. So a channel costs two descriptors, made when it is made; what uses it
// later (completion queues) needs no descriptor, no path and no right.
//
// Records are of one size and written whole. The program owns its end's flags (O_NONBLOCK): we write through our own
// end and take records back without waiting, whatever these flags are.
// Thread-safety: one thread at a time writes or purges; the program may read meanwhile.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/result.h"

namespace brdma::provider {

class EventPipe {
 public:
  struct Made {
    std::shared_ptr<EventPipe> pipe;
    int fd = -1;  // the program's end: close-on-exec, blocking
  };
  // Errors: EMFILE, ENFILE, as pipe(2) has them.
  [[nodiscard]] static Result<Made, Status> make();
  ~EventPipe();
  EventPipe(const EventPipe&) = delete;
  EventPipe& operator=(const EventPipe&) = delete;

  // False: no room, even after enlarging the pipe (a program that reads none of thousands), or nobody can read.
  [[nodiscard]] bool write(std::span<const std::byte> record);

  // Records written and not read since, as far as was seen: who reads past read_now() is not. May be asked any time.
  [[nodiscard]] std::uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  // One record off the program's end, without waiting. False: none was there.
  [[nodiscard]] bool read_now(int fd, std::span<std::byte> record);

  // Takes the records that `is_ours` recognises out of the pipe, keeping the others in order; answers how many there
  // were. `fd`: the program's end; 0 where it is another file by now.
  [[nodiscard]] std::uint32_t purge(int fd, std::size_t record_bytes,
                                    const std::function<bool(std::span<const std::byte>)>& is_ours);

  // Of a pipe's end: which pipe it is of. None: no pipe.
  [[nodiscard]] static std::optional<ino_t> inode_of(int fd);
  [[nodiscard]] ino_t inode() const { return inode_; }
  // Looks whether any process can still read. If not, nothing is written from here on: it would be SIGPIPE.
  [[nodiscard]] bool has_reader();

  // In a forked child, which must neither read what is its parent's nor write to it: closes our end, and puts a pipe
  // with `records` in place of `fd`, which answers end of file behind them. What was there stays open under another
  // number, as epoll sets hold on to it. System calls only.
  void replace(int fd, std::span<const std::byte> records);

 private:
  EventPipe(int writer_fd, ino_t inode) : writer_fd_(writer_fd), inode_(inode) {}
  int writer_fd_;
  ino_t inode_;  // no other pipe has it while this one exists
  std::atomic<bool> unread_{false};
  std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace brdma::provider
