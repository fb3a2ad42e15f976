// rdma_cm/user_memory.h - copies to and from memory that a program named in a command and that may be unmapped, as the
// kernel does: a wrong address is an error (EFAULT) and does not end the program.
#pragma once

#include <cstddef>

namespace brdma::provider {

// False: not all of it is readable. The part before stays copied.
[[nodiscard]] bool copy_from_program(void* to, const void* program, std::size_t bytes);
// False: not all of it is writable.
[[nodiscard]] bool copy_to_program(void* program, const void* from, std::size_t bytes);

}  // namespace brdma::provider
