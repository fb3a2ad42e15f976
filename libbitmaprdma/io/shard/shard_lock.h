// io/shard/shard_lock.h - the lock of a shard: one mutex, and the number of waiters. A thread that polls in a loop
// takes the lock again right after releasing it and would starve the others; it checks contended() and lets them in.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace brdma::io {

// Hints to the processor that this thread waits in a loop.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb");  // "yield" does nothing on most processors
#else
  __asm__ volatile("");
#endif
}

class ShardLock {
 public:
  ShardLock() {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    // Spins a little before it sleeps: the lock is held for microseconds.
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&mutex_, &attributes);
    pthread_mutexattr_destroy(&attributes);
  }
  ~ShardLock() { pthread_mutex_destroy(&mutex_); }
  ShardLock(const ShardLock&) = delete;
  ShardLock& operator=(const ShardLock&) = delete;

  void lock() {
    if (try_lock()) return;
    waiting_.fetch_add(1, std::memory_order_relaxed);
    pthread_mutex_lock(&mutex_);
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  [[nodiscard]] bool try_lock() { return pthread_mutex_trylock(&mutex_) == 0; }
  void unlock() { pthread_mutex_unlock(&mutex_); }
  [[nodiscard]] bool contended() const { return waiting_.load(std::memory_order_relaxed) != 0; }

 private:
  pthread_mutex_t mutex_;
  std::atomic<std::uint32_t> waiting_{0};
};

}  // namespace brdma::io
