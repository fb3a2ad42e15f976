// user_memory.h - memory that a program named in a command and that may not be there: as the kernel copies to and from
// a program's memory, so that a wrong address is an answer (EFAULT) and not the program's end.
#pragma once

#include <cstddef>

namespace brdma::provider {

// False: not all of it is there. What was copied until then stays copied.
[[nodiscard]] bool copy_from_program(void* to, const void* program, std::size_t bytes);
// False: not all of it is there, or may not be written.
[[nodiscard]] bool copy_to_program(void* program, const void* from, std::size_t bytes);

}  // namespace brdma::provider
