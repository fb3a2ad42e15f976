#include "write_events/write_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>
#include <utility>

namespace brdma::provider {
namespace {

constexpr std::array<std::byte, 1> kByte{};  // content of the pipe

// Bypasses our own hook.
void close_descriptor(int fd) { ::syscall(SYS_close, fd); }

}  // namespace

Result<std::shared_ptr<WriteQueue>, Status> WriteQueue::make(std::uint32_t events_max) {
  auto made = EventPipe::make();
  if (!made) return made.reason();
  const int fd = made.value().fd;
  try {
    return std::shared_ptr<WriteQueue>(new WriteQueue(std::move(made).value(), events_max));
  } catch (const std::bad_alloc&) {
    close_descriptor(fd);
    return Status(ENOMEM);
  }
}

WriteQueue::WriteQueue(EventPipe::Made made, std::uint32_t events_max)
    : fd_(made.fd), events_max_(events_max), pipe_(std::move(made.pipe)), events_(events_max) {}

WriteQueue::~WriteQueue() { close_descriptor(fd_); }

void WriteQueue::push(WatchNumber watch, const brdma_write_event& event) {
  const std::lock_guard held(lock_);
  if (ended_ != 0) return;
  if (events_.size() >= events_max_) {
    ++lost_;
    return;
  }
  events_.push_back({watch, event});
  if (events_.size() == 1) make_readable();
}

void WriteQueue::drop(WatchNumber watch) {
  const std::lock_guard held(lock_);
  const std::size_t before = events_.size();
  for (std::size_t i = 0; i < before; ++i) {
    const Entry oldest = events_.front();
    events_.pop_front();
    if (oldest.watch != watch) events_.push_back(oldest);
  }
  if (before != 0 && events_.empty()) make_unreadable();
}

Result<std::size_t, Status> WriteQueue::take(std::span<brdma_write_event> out) {
  for (;;) {
    {
      const std::lock_guard held(lock_);
      if (ended_ != 0) return Status(ended_);
      if (const std::size_t taken = take_now(out); taken != 0) return taken;
      if (EventPipe::inode_of(fd_) != pipe_->inode()) return Status(EBADF);
    }
    if ((::fcntl(fd_, F_GETFL) & O_NONBLOCK) != 0) return Status(EAGAIN);
    pollfd waiting{fd_, POLLIN, 0};
    if (::poll(&waiting, 1, -1) < 0) return Status(errno);
  }
}

std::size_t WriteQueue::take_now(std::span<brdma_write_event> out) {
  const std::size_t taken = std::min(out.size(), events_.size());
  for (brdma_write_event& each : out.first(taken)) {
    each = events_.front().event;
    events_.pop_front();
  }
  if (taken != 0 && events_.empty()) make_unreadable();
  return taken;
}

std::uint64_t WriteQueue::lost() {
  const std::lock_guard held(lock_);
  return lost_;
}

// The byte stays: waiters wake up.
void WriteQueue::end(int error) {
  const std::lock_guard held(lock_);
  if (ended_ != 0) return;
  ended_ = error;
  if (events_.empty()) make_readable();
  events_.clear();
}

int WriteQueue::ended() {
  const std::lock_guard held(lock_);
  return ended_;
}

// There is room: the pipe is empty. If nobody can read, the program has closed its end.
void WriteQueue::make_readable() {
  if (pipe_->has_reader()) (void)pipe_->write(kByte);
}

// The descriptor is the program's: it may be another file by now.
void WriteQueue::make_unreadable() {
  std::array<std::byte, 1> byte;
  if (EventPipe::inode_of(fd_) == pipe_->inode()) (void)pipe_->read_now(fd_, byte);
}

// Nothing has arrived yet, as the device has had no queue pair. Parent and child would read each other's bytes.
void WriteQueue::renew_in_child() {
  if (ended_ != 0) return;
  auto made = EventPipe::make();
  if (!made) return abandon_in_child();
  const int own = made.value().fd;
  if ((::fcntl(fd_, F_GETFL) & O_NONBLOCK) != 0) ::fcntl(own, F_SETFL, O_NONBLOCK);
  const bool closes = (::fcntl(fd_, F_GETFD) & FD_CLOEXEC) != 0;
  if (EventPipe::inode_of(fd_) == pipe_->inode()) ::syscall(SYS_dup3, own, fd_, closes ? O_CLOEXEC : 0);
  close_descriptor(own);
  pipe_ = std::move(made).value().pipe;
}

void WriteQueue::abandon_in_child() {
  if (ended_ != 0) return;
  ended_ = EIO;
  events_.clear();
  pipe_->replace(fd_, kByte);
}

void WriteWatches::add(std::shared_ptr<WriteQueue> queue) {
  const std::lock_guard held(lock_);
  queues_.push_back(std::move(queue));
}

void WriteWatches::remove(const WriteQueue& queue) {
  const std::lock_guard held(lock_);
  std::erase_if(watches_, [&](const auto& entry) { return entry.second.queue.get() == &queue; });
  std::erase_if(queues_, [&](const auto& each) { return each.get() == &queue; });
}

WatchNumber WriteWatches::watch(const std::shared_ptr<WriteQueue>& queue, std::uint64_t user) {
  const std::lock_guard held(lock_);
  watches_[++last_] = {queue, user};
  return last_;
}

// With the lock held to the end: deliver() adds none meanwhile.
void WriteWatches::unwatch(WatchNumber watch) {
  const std::lock_guard held(lock_);
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  found->second.queue->drop(watch);
  watches_.erase(found);
}

bool WriteWatches::is_of(WatchNumber watch, const WriteQueue& queue) {
  const std::lock_guard held(lock_);
  const auto found = watches_.find(watch);
  return found != watches_.end() && found->second.queue.get() == &queue;
}

void WriteWatches::deliver(const WriteArrival& arrival) {
  const WatchNumber watch = reinterpret_cast<std::uintptr_t>(arrival.user);
  const std::lock_guard held(lock_);
  const auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  found->second.queue->push(
      watch,
      {.user = found->second.user, .address = arrival.address, .length = arrival.length, .qp_num = arrival.qp_num});
}

void WriteWatches::before_fork() {
  lock_.lock();
  for (const auto& queue : queues_) queue->before_fork();
}

void WriteWatches::after_fork() {
  for (const auto& queue : queues_) queue->after_fork();
  lock_.unlock();
}

void WriteWatches::abandon_in_child() {
  for (const auto& queue : queues_) queue->abandon_in_child();
}

void WriteWatches::renew_in_child() {
  for (const auto& queue : queues_) queue->renew_in_child();
}

}  // namespace brdma::provider
