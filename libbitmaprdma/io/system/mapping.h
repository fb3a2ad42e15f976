// io/system/mapping.h - owns a mapping of a descriptor's memory, shared and filled at once (mmap(2)).
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace brdma::io {

class Mapping {
 public:
  Mapping() = default;
  ~Mapping() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }
  Mapping(Mapping&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Mapping& operator=(Mapping&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  // Not valid, with errno set, where it cannot be had.
  [[nodiscard]] static Mapping shared(int fd, std::size_t bytes, std::uint64_t offset = 0) {
    Mapping made;
    void* const base =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, static_cast<off_t>(offset));
    if (base == MAP_FAILED) return made;
    made.base_ = static_cast<std::byte*>(base);
    made.bytes_ = bytes;
    return made;
  }

  [[nodiscard]] bool valid() const { return base_ != nullptr; }
  [[nodiscard]] std::byte* data() const { return base_; }

 private:
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace brdma::io
