#include "rdma_cm/user_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace brdma::provider {
namespace {

// Sandboxes may forbid the system calls: then it is copied unchecked.
bool forbidden(ssize_t result) { return result < 0 && (errno == ENOSYS || errno == EPERM); }

}  // namespace

bool copy_from_program(void* to, const void* program, std::size_t bytes) {
  if (bytes == 0) return true;
  const iovec here{to, bytes}, there{const_cast<void*>(program), bytes};
  const ssize_t copied = ::process_vm_readv(::getpid(), &here, 1, &there, 1, 0);
  if (forbidden(copied)) {
    std::memcpy(to, program, bytes);
    return true;
  }
  return copied == static_cast<ssize_t>(bytes);
}

bool copy_to_program(void* program, const void* from, std::size_t bytes) {
  if (bytes == 0) return true;
  const iovec here{const_cast<void*>(from), bytes}, there{program, bytes};
  const ssize_t copied = ::process_vm_writev(::getpid(), &here, 1, &there, 1, 0);
  if (forbidden(copied)) {
    std::memcpy(program, from, bytes);
    return true;
  }
  return copied == static_cast<ssize_t>(bytes);
}

}  // namespace brdma::provider
