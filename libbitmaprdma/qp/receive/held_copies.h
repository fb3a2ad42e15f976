// qp/receive/held_copies.h - private: copies of the payload of early packets, in buffers of two sizes. Buffers are
// allocated when first needed and kept for reuse; `bytes_max` bounds those in use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/bytes.h"

namespace brdma::qp {

class HeldCopies {
 public:
  // A buffer in use; null for a packet without payload.
  struct Copy {
    std::byte* data = nullptr;
    bool small = false;
  };

  // `mtu`: largest payload, in bytes. No copy is in use.
  void begin(std::uint32_t mtu, std::uint32_t bytes_max);
  // False, and nothing is copied: no room. Precondition: the payload is at most `mtu` bytes.
  [[nodiscard]] bool keep(ConstBytes payload, Copy& copy);
  void release(Copy& copy);  // no effect on a null copy
  void clear();              // no copy is in use any more, and all buffers are freed

  [[nodiscard]] std::size_t bytes() const { return bytes_; }  // of the buffers in use
  // All memory, including buffers kept for the next copies.
  [[nodiscard]] std::size_t allocated_bytes() const;

 private:
  static constexpr std::size_t kSmallBytes = 256;  // most held packets are Only and Last of small messages

  [[nodiscard]] std::size_t buffer_bytes(bool small) const { return small ? kSmallBytes : mtu_; }
  std::byte* take(bool small);

  std::uint32_t mtu_ = 0, bytes_max_ = 0;
  std::size_t bytes_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::size_t chunk_bytes_ = 0;                  // of all of them
  std::array<std::vector<std::byte*>, 2> free_;  // [small]
};

}  // namespace brdma::qp
