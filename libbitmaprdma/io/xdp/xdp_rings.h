// io/xdp/xdp_rings.h - a ring shared with the kernel: one side produces, the other consumes. Indices are free-running;
// their low bits select the entry. Linux: Documentation/networking/af_xdp.rst.
#pragma once

#include <linux/if_xdp.h>

#include <atomic>
#include <cstdint>

namespace brdma::io {

// Place of a ring in its mapping.
struct RingPlace {
  std::byte* base = nullptr;
  xdp_ring_offset offsets{};
  std::uint32_t entries = 0;  // a power of two
};

template <class Entry>
class XdpRing {
 public:
  XdpRing() = default;
  explicit XdpRing(const RingPlace& place)
      : producer_(index(place, place.offsets.producer)),
        consumer_(index(place, place.offsets.consumer)),
        flags_(index(place, place.offsets.flags)),
        entries_(reinterpret_cast<Entry*>(place.base + place.offsets.desc)),
        mask_(place.entries - 1) {}

  [[nodiscard]] std::uint32_t size() const { return mask_ + 1; }
  [[nodiscard]] Entry& at(std::uint32_t position) { return entries_[position & mask_]; }

  // --- where the kernel produces ---
  // Entries from consumed() up to this one may be read.
  [[nodiscard]] std::uint32_t produced() const { return load(producer_, std::memory_order_acquire); }
  [[nodiscard]] std::uint32_t consumed() const { return load(consumer_, std::memory_order_relaxed); }
  void consume_to(std::uint32_t position) { store(consumer_, position); }

  // --- where we produce ---
  [[nodiscard]] std::uint32_t filled() const { return load(producer_, std::memory_order_relaxed); }
  // The kernel has read entries up to this one.
  [[nodiscard]] std::uint32_t taken() const { return load(consumer_, std::memory_order_acquire); }
  void fill_to(std::uint32_t position) { store(producer_, position); }
  // The kernel sleeps and wants a system call.
  [[nodiscard]] bool needs_wakeup() const {
    return (load(flags_, std::memory_order_relaxed) & XDP_RING_NEED_WAKEUP) != 0;
  }

 private:
  static std::uint32_t* index(const RingPlace& place, std::uint64_t offset) {
    return reinterpret_cast<std::uint32_t*>(place.base + offset);
  }
  static std::uint32_t load(std::uint32_t* at, std::memory_order order) {
    return std::atomic_ref<std::uint32_t>{*at}.load(order);
  }
  static void store(std::uint32_t* at, std::uint32_t value) {
    std::atomic_ref<std::uint32_t>{*at}.store(value, std::memory_order_release);
  }

  std::uint32_t* producer_ = nullptr;
  std::uint32_t* consumer_ = nullptr;
  std::uint32_t* flags_ = nullptr;
  Entry* entries_ = nullptr;
  std::uint32_t mask_ = 0;
};

}  // namespace brdma::io
