// bitmap/segmented_array.h - elements by a circular index, of which only a range is held at a time: the storage of
// bitmaps and send entries. Two forms (window_shape.h):
//
//   base       one block that is a ring of `base` elements, taken with the first element
//   segmented  a row of segments; the directory has a power of two of places, so that an index finds its segment by its
//              middle bits and its place in it by its low bits. Segments come with the first element in them, and go
//              when the range has left them. The directory's length follows base + k extensions.
//
// Nothing held: no memory, except a short directory that stays for the next load. The owner knows which range is held:
// it names its first index with each new element (reach), and the part it has left behind (leave, release). Elements of
// a new block are zero, unless their owner writes each before it is read (NewElements::kUndefined). T: trivially
// copyable, a power of two of bytes.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "bitmap/segment_pool.h"
#include "bitmap/window_shape.h"

namespace brdma::bitmap {

enum class NewElements : bool { kZero, kUndefined };

template <class T, NewElements kNew = NewElements::kZero>
class SegmentedArray {
  static_assert(std::is_trivially_copyable_v<T> && std::has_single_bit(sizeof(T)));

 public:
  // Counts of elements, powers of two. `index_bits`: width of an index, which wraps.
  struct Shape {
    std::uint32_t base = 64, extension = 512, segment = 512;
    unsigned index_bits = 24;
  };
  SegmentedArray() = default;  // holds nothing and takes nothing until another is moved in
  // `pool` outlives the array.
  SegmentedArray(const Shape& shape, SegmentPool& pool)
      : pool_(&pool),
        extension_(std::max({shape.extension, shape.segment, kElementsMin})),
        index_mask_((std::uint32_t{1} << shape.index_bits) - 1),
        base_shift_(shift_of(std::max(shape.base, kElementsMin))),
        segment_shift_(shift_of(std::max(shape.segment, kElementsMin))) {
    BRDMA_CHECK(std::has_single_bit(shape.base) && std::has_single_bit(shape.extension) &&
                std::has_single_bit(shape.segment) && shape.index_bits >= 1 && shape.index_bits <= 24);
  }
  ~SegmentedArray() { free_all(); }
  SegmentedArray(SegmentedArray&& other) noexcept { take_over(other); }
  SegmentedArray& operator=(SegmentedArray&& other) noexcept {
    if (this == &other) return *this;
    free_all();
    take_over(other);
    return *this;
  }

  // The element; null where its block is not here: the element is zero, or not held.
  [[nodiscard]] T* find(std::uint32_t index) const {
    if (directory_places_ == 0) return base_ring_ == nullptr ? nullptr : base_ring_ + (index & (base_elements() - 1));
    T* const segment = directory_[place_of(index)];
    return segment == nullptr ? nullptr : segment + (index & (segment_elements() - 1));
  }
  // An element that is held. Half the cost of find().
  [[nodiscard]] T& operator[](std::uint32_t index) const {
    T* const block = directory_places_ == 0 ? base_ring_ : directory_[place_of(index)];
    return block[index & (directory_places_ == 0 ? base_elements() - 1 : segment_elements() - 1)];
  }
  // Element `index` of the range that begins at `first` and ends at `index` or later; makes room.
  T& reach(std::uint32_t first, std::uint32_t index) {
    if (((index - first) & index_mask_) < fits()) [[likely]] {
      if (T* const element = find(index)) [[likely]]
        return *element;
    }
    return reach_slow(first, index);
  }
  // The first element, where nothing is held.
  T& begin_at(std::uint32_t index) {
    if (directory_places_ != 0 || base_ring_ != nullptr) [[unlikely]]
      return reach(index, index);
    base_ring_ = take_block(base_elements() * sizeof(T));
    return base_ring_[index & (base_elements() - 1)];
  }
  // The range begins at `to` now and no longer at `from`; `held` elements of it are left, at least one.
  void leave(std::uint32_t from, std::uint32_t to, std::uint32_t held) {
    if (((from ^ to) & index_mask_) >> segment_shift_ == 0 || directory_places_ == 0) [[likely]]
      return;
    leave_slow(from, to, held);
  }
  // Nothing is held any more; the range began at `first` and had `count` elements.
  void release(std::uint32_t first, std::uint32_t count) {
    if (directory_places_ == 0) {
      if (base_ring_ == nullptr) return;
      pool_->give(std::exchange(base_ring_, nullptr), base_elements() * sizeof(T));
      taken_ = 0;
      return;
    }
    release_segmented(first, count);
  }
  // The same, wherever the range was.
  void clear() { free_all(); }

  // How many elements from `index` on, at most `count`, lie in the block of `index`.
  [[nodiscard]] std::uint32_t in_block(std::uint32_t index, std::uint32_t count) const {
    const std::uint32_t size = directory_places_ == 0 ? base_elements() : segment_elements();
    return std::min(count, size - (index & (size - 1)));
  }

  [[nodiscard]] SegmentPool& pool() const { return *pool_; }
  [[nodiscard]] bool segmented() const { return directory_places_ != 0; }
  [[nodiscard]] std::uint32_t segments() const { return segmented() ? taken_ : 0; }
  [[nodiscard]] LengthChange take_length_change() { return std::exchange(length_change_, LengthChange::kNone); }
  [[nodiscard]] std::uint32_t extensions() const { return segmented() ? extensions_ : 0; }
  [[nodiscard]] std::size_t bytes() const {
    if (!segmented()) return base_ring_ == nullptr ? 0 : base_elements() * sizeof(T);
    return taken_ * segment_bytes() + directory_bytes(directory_places_);
  }
  // Elements that fit into the present length.
  [[nodiscard]] std::uint32_t fits() const { return base_elements() + (segmented() ? extensions_ * extension_ : 0); }

 private:
  static constexpr std::uint32_t kElementsMin =
      sizeof(T) >= SegmentPool::kBlockMin ? 1 : static_cast<std::uint32_t>(SegmentPool::kBlockMin / sizeof(T));
  static constexpr std::uint32_t kShortDirectory = 8;  // places that an empty array may keep
  // How often in a row the range must have fitted into less before a step is given up: one short lull is no evidence.
  static constexpr std::uint8_t kQuietMax = 8;

  static std::uint8_t shift_of(std::uint32_t elements) { return static_cast<std::uint8_t>(std::countr_zero(elements)); }
  [[nodiscard]] std::uint32_t base_elements() const { return std::uint32_t{1} << base_shift_; }
  [[nodiscard]] std::uint32_t segment_elements() const { return std::uint32_t{1} << segment_shift_; }
  [[nodiscard]] std::size_t segment_bytes() const { return segment_elements() * sizeof(T); }
  [[nodiscard]] std::uint32_t place_of(std::uint32_t index) const {
    return (index >> segment_shift_) & (directory_places_ - 1);
  }
  static std::size_t directory_bytes(std::uint32_t places) {
    return std::max<std::size_t>(std::size_t{places} * sizeof(T*), SegmentPool::kBlockMin);
  }
  // An unaligned range of n segments touches n + 1.
  [[nodiscard]] std::uint32_t places_for(std::uint32_t extensions) const {
    const std::uint32_t elements = base_elements() + extensions * extension_;
    return std::bit_ceil((elements + segment_elements() - 1) / segment_elements() + 1);
  }
  [[nodiscard]] std::uint32_t extensions_for(std::uint32_t elements) const {
    return elements <= base_elements() ? 0 : (elements - base_elements() + extension_ - 1) / extension_;
  }

  T* take_block(std::size_t bytes) {
    void* const block = pool_->take(bytes);
    if constexpr (kNew == NewElements::kZero) std::memset(block, 0, bytes);
    ++taken_;
    return static_cast<T*>(block);
  }
  void give_segment(T*& segment) {
    if (segment == nullptr) return;
    pool_->give(std::exchange(segment, nullptr), segment_bytes());
    --taken_;
  }

  [[gnu::noinline]] T& reach_slow(std::uint32_t first, std::uint32_t index) {
    const std::uint32_t needed = ((index - first) & index_mask_) + 1;
    if (needed > fits()) {
      resize(first, std::max(extensions_for(needed), 1u));
      quiet_ = 0;
    } else if (!segmented()) {
      base_ring_ = take_block(base_elements() * sizeof(T));
    }
    if (segmented() && directory_[place_of(index)] == nullptr)
      directory_[place_of(index)] = take_block(segment_bytes());
    return *find(index);
  }

  void set_length(std::uint32_t extensions) {
    if (extensions != extensions_) {
      length_change_ = extensions > extensions_ ? LengthChange::kLonger : LengthChange::kShorter;
    }
    extensions_ = extensions;
  }
  // From the base ring to segments, or to another length; the held range begins at `first`.
  void resize(std::uint32_t first, std::uint32_t extensions) {
    const std::uint32_t places = places_for(extensions);
    T** const directory = static_cast<T**>(pool_->take(directory_bytes(places)));
    std::fill_n(directory, places, nullptr);
    const std::uint32_t old_places = std::exchange(directory_places_, places);
    T** const old = old_places == 0 ? nullptr : directory_;
    T* const ring = old_places == 0 ? base_ring_ : nullptr;
    directory_ = directory;
    set_length(extensions);
    if (old_places == 0) {
      if (ring != nullptr) move_ring(ring, first);
      return;
    }
    for (std::uint32_t i = 0; i < std::min(places, old_places); ++i) {
      const std::uint32_t number = ((first & index_mask_) >> segment_shift_) + i;
      std::swap(directory_[number & (places - 1)], old[number & (old_places - 1)]);
    }
    pool_->give(old, directory_bytes(old_places));
  }
  void move_ring(T* ring, std::uint32_t first) {
    taken_ = 0;
    for (std::uint32_t done = 0; done < base_elements();) {
      const std::uint32_t from = first + done;
      const std::uint32_t run =
          std::min(in_block(from, base_elements() - done), base_elements() - (from & (base_elements() - 1)));
      T*& segment = directory_[place_of(from)];
      if (segment == nullptr) segment = take_block(segment_bytes());
      std::memcpy(segment + (from & (segment_elements() - 1)), ring + (from & (base_elements() - 1)), run * sizeof(T));
      done += run;
    }
    pool_->give(ring, base_elements() * sizeof(T));
  }

  [[gnu::noinline]] void leave_slow(std::uint32_t from, std::uint32_t to, std::uint32_t held) {
    const std::uint32_t begin = (from & index_mask_) >> segment_shift_, end = (to & index_mask_) >> segment_shift_;
    const std::uint32_t left = (end - begin) & (index_mask_ >> segment_shift_);
    for (std::uint32_t i = 0; i < std::min(left, directory_places_); ++i) {
      give_segment(directory_[(begin + i) & (directory_places_ - 1)]);
    }
    if (quiet_for(held)) resize_shorter(to, held);
  }
  // Half as many steps, but as many as twice the held range needs.
  void resize_shorter(std::uint32_t first, std::uint32_t held) {
    const std::uint32_t fewer = std::max({extensions_ / 2, extensions_for(2 * held), 1u});
    if (fewer >= extensions_) return;
    if (places_for(fewer) < directory_places_) {
      resize(first, fewer);
    } else {
      set_length(fewer);
    }
  }
  // Has the held range left a whole step unused for long enough?
  bool quiet_for(std::uint32_t held) {
    quiet_ = held + extension_ <= fits() ? static_cast<std::uint8_t>(quiet_ + 1) : std::uint8_t{0};
    if (quiet_ < kQuietMax) return false;
    quiet_ = 0;
    return true;
  }

  void release_segmented(std::uint32_t first, std::uint32_t count) {
    const std::uint32_t begin = (first & index_mask_) >> segment_shift_;
    const std::uint32_t end = ((first & index_mask_) + count) >> segment_shift_;
    for (std::uint32_t i = 0; i < directory_places_ && begin + i <= end; ++i) {
      give_segment(directory_[(begin + i) & (directory_places_ - 1)]);
    }
    BRDMA_CHECK_SLOW(taken_ == 0);
    // A load that comes again soon finds the directory; one that is long, or not needed recently, is given up.
    if (directory_places_ > kShortDirectory || quiet_for(count)) free_all();
  }
  void free_all() {
    if (segmented()) {
      for (std::uint32_t i = 0; i < directory_places_ && taken_ > 0; ++i) give_segment(directory_[i]);
      pool_->give(directory_, directory_bytes(directory_places_));
    } else if (base_ring_ != nullptr) {
      pool_->give(base_ring_, base_elements() * sizeof(T));
    }
    base_ring_ = nullptr;
    directory_places_ = taken_ = 0;
    set_length(0);
    quiet_ = 0;
  }
  void take_over(SegmentedArray& other) {
    pool_ = other.pool_;
    directory_places_ = std::exchange(other.directory_places_, 0);
    if (directory_places_ == 0) {
      base_ring_ = other.base_ring_;
    } else {
      directory_ = other.directory_;
    }
    other.base_ring_ = nullptr;
    taken_ = std::exchange(other.taken_, 0);
    extensions_ = std::exchange(other.extensions_, 0);
    extension_ = other.extension_;
    index_mask_ = other.index_mask_;
    base_shift_ = other.base_shift_;
    segment_shift_ = other.segment_shift_;
    quiet_ = std::exchange(other.quiet_, std::uint8_t{0});
    length_change_ = std::exchange(other.length_change_, LengthChange::kNone);
  }

  SegmentPool* pool_ = nullptr;
  union {
    T* base_ring_ = nullptr;  // base form
    T** directory_;           // segmented form
  };
  std::uint32_t directory_places_ = 0;  // 0: base form
  std::uint32_t taken_ = 0;             // blocks
  std::uint32_t extensions_ = 0;        // k
  std::uint32_t extension_ = 0;
  std::uint32_t index_mask_ = 0;
  std::uint8_t base_shift_ = 0, segment_shift_ = 0;
  std::uint8_t quiet_ = 0;  // how often in a row a step was not needed
  LengthChange length_change_ = LengthChange::kNone;
};

}  // namespace brdma::bitmap
