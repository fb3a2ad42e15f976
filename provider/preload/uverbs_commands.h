// preload/uverbs_commands.h - the one command that libibverbs still sends to the kernel with a complete plugin:
// CREATE_COMP_CHANNEL. A plain function, independent of the write's origin.
//   bytes written: command u32 = 17 | in_words u16 = 4 | out_words u16 = 1 | address u64 of the answer, an int: the fd
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace brdma::preload {

// As write(2) to the node: the one command, EOPNOTSUPP for every other and EINVAL for malformed ones. (The file behind
// the node would return ENOSPC, which has another meaning.)
[[nodiscard]] ssize_t uverbs_command(const void* bytes, std::size_t count);

// True if this write begins a CREATE_COMP_CHANNEL command.
[[nodiscard]] bool is_create_completion_channel(const void* bytes, std::size_t count);

// As write(2) to the node: `count`, or -1 with the kernel's errno: EINVAL wrong length, ENOSPC no room for the answer,
// EFAULT the answer's address is invalid. Call only if the above is true.
[[nodiscard]] ssize_t create_completion_channel(const void* bytes, std::size_t count);

}  // namespace brdma::preload
