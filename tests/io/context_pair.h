// tests/io/context_pair.h - two connected contexts with helpers for tests: bounded waits, a handler that waits.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <iostream>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "endpoint.h"
#include "io/shard/clock.h"
#include "test_lease.h"
#include "test_network.h"

namespace brdma::test {

constexpr Duration kPatience = 20_s;

// Waits for work of other threads; events, not time, end the wait.
class Handler : public NotificationHandler {
 public:
  void completion_event(void* cq_user) override { note(completions_, cq_user); }
  void async_event(int type, void*) override {
    const std::lock_guard lock{mutex_};
    events_.push_back(type);
    changed_.notify_all();
  }
  // True: one came.
  bool wait_completion() {
    std::unique_lock lock{mutex_};
    if (!changed_.wait_for(lock, kWait, [&] { return !completions_.empty(); })) return false;
    completions_.erase(completions_.begin());
    return true;
  }
  // Events that nobody has waited for.
  [[nodiscard]] std::size_t completions() {
    const std::lock_guard lock{mutex_};
    return completions_.size();
  }
  bool wait_event(int type) {
    std::unique_lock lock{mutex_};
    return changed_.wait_for(lock, kWait, [&] { return std::count(events_.begin(), events_.end(), type) > 0; });
  }

 private:
  static constexpr std::chrono::seconds kWait{20};
  void note(std::vector<void*>& list, void* item) {
    const std::lock_guard lock{mutex_};
    list.push_back(item);
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<void*> completions_;
  std::vector<int> events_;
};

struct Pair {
  Handler handler_a, handler_b;
  std::unique_ptr<Endpoint> a, b;
  explicit Pair(const EndpointOptions& options_a, const EndpointOptions& options_b, IpAddress ip = test_ip4(),
                bool dual_stack = true) {
    auto leases = make_leases(2, dual_stack);
    a = std::make_unique<Endpoint>(std::move(leases[0]), ip, options_a, &handler_a);
    b = std::make_unique<Endpoint>(std::move(leases[1]), ip, options_b, &handler_b);
    a->connect(b->info());
    b->connect(a->info());
  }
  explicit Pair(const EndpointOptions& options = {}, IpAddress ip = test_ip4(), bool dual_stack = true)
      : Pair(options, options, ip, dual_stack) {}
  ~Pair() {
    if (!testing::Test::HasFailure()) return;
    for (const Endpoint* side : {a.get(), b.get()}) {
      if (side != nullptr) std::cerr << (side == a.get() ? "a: " : "b: ") << nonzero(*side->statistics) << "\n";
    }
  }
  static std::string nonzero(const Statistics& statistics) {
    std::string out;
    for (std::size_t i = 0; i < kCounterCount; ++i) {
      const auto count = statistics.get(static_cast<Counter>(i));
      if (count > 0) out += std::string{kCounterNames[i]} + "=" + std::to_string(count) + " ";
    }
    for (std::size_t i = 0; i < kDropReasonCount; ++i) {
      const auto count = statistics.get(static_cast<DropReason>(i));
      if (count > 0) out += std::string{kDropReasonNames[i]} + "=" + std::to_string(count) + " ";
    }
    return out;
  }
  // Polls `endpoint`, and `other` too so that it makes progress without a thread.
  static Completion wait(Endpoint& endpoint, CompletionQueue* cq, Endpoint* other = nullptr) {
    Completion completion, ignored;
    completion.status = CompletionStatus::kGeneralError;
    const Instant end = io::monotonic_now() + kPatience;
    while (io::monotonic_now() < end) {
      if (endpoint.poll(cq, completion)) return completion;
      if (other != nullptr && other->poll(other->send_cq, ignored)) ADD_FAILURE() << "a completion of nothing";
    }
    ADD_FAILURE() << "no completion";
    return completion;
  }
};

inline void fill(std::vector<std::byte>& memory, std::uint32_t seed) {
  for (std::size_t i = 0; i < memory.size(); ++i) {
    seed = seed * 1664525u + 1013904223u;
    memory[i] = static_cast<std::byte>(seed >> 24);
  }
}

inline bool same(const Endpoint& x, std::size_t at_x, const Endpoint& y, std::size_t at_y, std::size_t bytes) {
  return std::memcmp(x.memory.data() + at_x, y.memory.data() + at_y, bytes) == 0;
}

}  // namespace brdma::test
