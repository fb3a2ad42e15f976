// memory_regions/mapped_memory.h - memory that a descriptor names, mapped for the engine: a region's bytes that are not
// the program's own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"

namespace brdma::provider {

class MappedMemory {
 public:
  // [offset, offset + bytes) of `fd`, shared with whoever else has it; `bytes` above 0, any offset. EBADF: no
  // descriptor. EINVAL: beyond its end. EACCES: opened without the rights. EOPNOTSUPP: its memory cannot be mapped.
  // ENOMEM.
  static Result<std::shared_ptr<MappedMemory>, Status> map(int fd, std::uint64_t offset, std::size_t bytes,
                                                           bool writable);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }

 private:
  MappedMemory(void* base, std::size_t mapped, std::span<std::byte> bytes)
      : base_(base), mapped_(mapped), bytes_(bytes) {}
  void* base_;
  std::size_t mapped_;
  std::span<std::byte> bytes_;
};

}  // namespace brdma::provider
