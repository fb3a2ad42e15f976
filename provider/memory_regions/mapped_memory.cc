#include "memory_regions/mapped_memory.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <limits>
#include <optional>

namespace brdma::provider {
namespace {

// Its bytes; none: it has no size, and so no memory to map.
std::optional<std::uint64_t> size_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return std::nullopt;
  if (S_ISREG(status.st_mode)) return static_cast<std::uint64_t>(status.st_size);
  const off_t end = ::lseek(fd, 0, SEEK_END);  // a dma-buf's answer; it has no position
  if (end <= 0) return std::nullopt;
  return static_cast<std::uint64_t>(end);
}

int error_of_map(int error) {
  return error == EACCES || error == EPERM ? EACCES : error == ENOMEM || error == EAGAIN ? ENOMEM : EOPNOTSUPP;
}

}  // namespace

Result<std::shared_ptr<MappedMemory>, Status> MappedMemory::map(int fd, std::uint64_t offset, std::size_t bytes,
                                                                bool writable) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) return Status(EBADF);
  const auto size = size_of(fd);
  if (!size) return Status(EOPNOTSUPP);
  if (offset > *size || bytes > *size - offset) return Status(EINVAL);
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t before = offset % page;
  const std::size_t mapped = bytes + before;
  void* const base = ::mmap(nullptr, mapped, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
                            static_cast<off_t>(offset - before));
  if (base == MAP_FAILED) return Status(error_of_map(errno));
  return std::shared_ptr<MappedMemory>(
      new MappedMemory(base, mapped, std::span(static_cast<std::byte*>(base) + before, bytes)));
}

MappedMemory::~MappedMemory() { ::munmap(base_, mapped_); }

}  // namespace brdma::provider
