// events/event_pipe.h - the pipe behind ibv_comp_channel::fd and ibv_context::async_fd. The program has the read end,
// we keep the write end. So a channel costs two descriptors, made with it; later users (completion queues) need no
// descriptor, no path and no right.
//
// Records are of one size and written whole. The program owns its end's flags (O_NONBLOCK): we write through our own
// end and take records back without waiting, for any flags. Thread-safety: one thread at a time writes or purges; the
// program may read meanwhile.
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

  // Records written and unread, as far as known: reads that bypass read_now() are not. May be called any time.
  [[nodiscard]] std::uint32_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  // Reads one record from the program's end, without waiting. False: none was there.
  [[nodiscard]] bool read_now(int fd, std::span<std::byte> record);

  // Takes the records that `is_ours` recognises out of the pipe, keeping the others in order; returns their number.
  // `fd`: the program's end; 0 if it is another file by now.
  [[nodiscard]] std::uint32_t purge(int fd, std::size_t record_bytes,
                                    const std::function<bool(std::span<const std::byte>)>& is_ours);

  // The pipe of an end. None: no pipe.
  [[nodiscard]] static std::optional<ino_t> inode_of(int fd);
  [[nodiscard]] ino_t inode() const { return inode_; }
  // `fd` is the program's end, or a copy.
  [[nodiscard]] bool has_end(int fd) const { return inode_of(fd) == inode_; }
  // True if a process can still read. Otherwise nothing is written from here on: it would be SIGPIPE.
  [[nodiscard]] bool has_reader();

  // In a forked child, which must neither read its parent's records nor write to it: closes our end, and replaces `fd`
  // by a pipe with `records` and then end of file. The old one stays open under another number, as epoll sets refer to
  // it. System calls only.
  void replace(int fd, std::span<const std::byte> records);

 private:
  EventPipe(int writer_fd, ino_t inode) : writer_fd_(writer_fd), inode_(inode) {}
  int writer_fd_;
  ino_t inode_;  // no other pipe has it while this one exists
  std::atomic<bool> unread_{false};
  std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace brdma::provider
