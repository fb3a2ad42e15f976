// qp/queues/gather_list.h - private: the gather list of a batch. One buffer holds the headers, small payloads and
// trailers of all packets in their order; slices refer to stretches of it and to payload in the program's memory.
//
// The ICRC and pad of a packet lie next to the headers of the following one, in one slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "base/bytes.h"
#include "base/datagram.h"
#include "memory/guard.h"
#include "wire/packet.h"

namespace brdma::qp {

class GatherList {
 public:
  explicit GatherList(TransmitBuffer& buffer) : buffer_(buffer) {}

  static constexpr std::size_t kPadMax = 3, kTrailerMax = kPadMax + wire::kIcrcSize;

  // Is there room for `bytes` in the buffer, and a trailer? For a packet's payload in so many pieces?
  [[nodiscard]] bool takes_bytes(std::size_t bytes) const {
    return used_ + kTrailerMax + bytes <= buffer_.headers.size();
  }
  [[nodiscard]] bool takes_slices(std::size_t payload_slices) const {
    return slices_ + payload_slices + 2 <= kSlicesMax;
  }
  // How many packets of `bytes` in the buffer. Precondition: takes_bytes() one.
  [[nodiscard]] std::size_t room(std::size_t bytes) const {
    return (buffer_.headers.size() - kTrailerMax - used_) / bytes;
  }

  // --- the buffer ---
  [[nodiscard]] std::size_t used() const { return used_; }
  [[nodiscard]] std::byte* at(std::size_t offset) { return buffer_.headers.data() + offset; }
  [[nodiscard]] std::byte* end() { return at(used_); }
  void take(std::size_t bytes) { used_ += bytes; }  // they were written to end()
  void copy(const void* payload, std::size_t bytes) {
    if (!memory::copy(end(), static_cast<const std::byte*>(payload), bytes)) [[unlikely]]
      faulted_ = true;
    used_ += bytes;
  }
  // Apart, so that the compiler keeps what refers to payload short.
  [[gnu::noinline]] void copy(std::span<const Slice> payload) {
    for (const Slice& slice : payload) copy(slice.data, slice.size);
  }
  void put_trailer(std::size_t pad, std::uint32_t icrc) {
    store_le32(end() + pad, icrc);
    used_ += pad + wire::kIcrcSize;
  }
  // Moves what lies from `offset` on `bytes` ahead. Precondition: takes_bytes().
  void make_room(std::size_t offset, std::size_t bytes) {
    std::memmove(at(offset + bytes), at(offset), used_ - offset);
    used_ += bytes;
  }

  // --- the slices ---
  [[nodiscard]] std::size_t slices() const { return slices_; }
  [[nodiscard]] std::span<const Slice> slices_from(std::size_t first) const {
    return {buffer_.slices.data() + first, slices_ - first};
  }
  void append(const void* data, std::size_t size) { buffer_.slices[slices_++] = Slice{data, size}; }
  // What the buffer holds beyond the last slice becomes one.
  void close_slice() {
    if (used_ > slice_start_) append(at(slice_start_), used_ - slice_start_);
    slice_start_ = used_;
  }
  // Payload that is not copied. Returns the index of its first slice.
  std::size_t refer(std::span<const Slice> payload) {
    close_slice();
    const std::size_t first = slices_;
    Slice* to = buffer_.slices.data() + first;
    for (const Slice& slice : payload) *to++ = Slice{slice.data, slice.size};
    slices_ = first + payload.size();
    return first;
  }
  // Where the next slice of the buffer begins.
  [[nodiscard]] std::size_t slice_start() const { return slice_start_; }
  // The buffer up to `offset` is in slices.
  void resume_at(std::size_t offset) { used_ = slice_start_ = offset; }
  // The slice of the buffer that ends at its end was made before `bytes` were added there.
  void extend_slice(std::size_t index, std::size_t bytes) {
    buffer_.slices[index].size += bytes;
    slice_start_ = used_;
  }

  // Part of the payload could not be read (memory/guard.h).
  void note_fault() { faulted_ = true; }
  [[nodiscard]] bool faulted() const { return faulted_; }

 private:
  TransmitBuffer& buffer_;
  std::size_t slices_ = 0, used_ = 0, slice_start_ = 0;
  bool faulted_ = false;
};

}  // namespace brdma::qp
