// completions/completion_rings.h - the completions of one completion queue. The engine has a queue, called a ring, in
// each shard that completes into it; most often that is one. A ring is made with the first queue pair that needs it.
//
// No order exists between queue pairs, so a poll starts with another ring each time. One arming makes one event: all
// rings are armed at once, and when one has fired, the others' notifications make none until the next arming.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "bitmaprdma/context.h"

namespace brdma::provider {

class CompletionRings {
 public:
  struct Ring {
    Context* context = nullptr;
    CompletionQueue* engine = nullptr;
    std::size_t shard = 0;
  };

  // --- the program's calls, any thread ---
  std::size_t poll(std::span<Completion> out, std::span<Instant> times = {}) {
    if (count_.load(std::memory_order_acquire) == 1) [[likely]]
      return first_.context->poll_cq(first_.engine, out, times);
    return poll_several(out, times);
  }
  // `alone`: the device has one shard.
  void arm(bool solicited_only, bool alone) {
    if (alone) return first_.context->request_notify(first_.engine, solicited_only);
    arm_all(solicited_only ? NotifyOf::kSolicited : NotifyOf::kAny);
  }

  // For a device with several shards: a ring's notification, with its shard's lock held. True: notify the program.
  [[nodiscard]] bool fired() { return armed_.exchange(NotifyOf::kNothing) != NotifyOf::kNothing; }

  // --- one thread at a time (SharedDevice::objects()) ---
  [[nodiscard]] CompletionQueue* in(std::size_t shard) const;  // null: none there
  void add(const Ring& ring);                                  // armed if the queue is armed
  [[nodiscard]] std::size_t size() const { return count_.load(); }
  [[nodiscard]] const Ring& operator[](std::size_t place) const { return place == 0 ? first_ : more_[place - 1]; }
  // The shard of its first queue pairs.
  [[nodiscard]] std::optional<std::size_t> home() const {
    return size() == 0 ? std::nullopt : std::optional(first_.shard);
  }

 private:
  using NotifyOf = Context::NotifyOf;
  std::size_t poll_several(std::span<Completion> out, std::span<Instant> times);
  void arm_all(NotifyOf wanted);

  // Rings are only added; readers of the count may read as many.
  std::atomic<std::uint32_t> count_{0};
  std::atomic<std::uint32_t> next_{0};  // start of the next poll
  // Written with all rings' locks held, cleared with one of them.
  std::atomic<NotifyOf> armed_{NotifyOf::kNothing};
  Ring first_;
  std::unique_ptr<Ring[]> more_;  // made with the second
  std::mutex arming_;             // taken before the shards' locks
};

}  // namespace brdma::provider
