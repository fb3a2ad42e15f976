// preload/uverbs_commands.h - the one command that libibverbs still sends to the kernel when a plugin does everything
// else: CREATE_COMP_CHANNEL. A plain function, independent of how the write reached us.
//   bytes written: command u32 = 17 | in_words u16 = 4 | out_words u16 = 1 | address u64 of the answer, an int: the fd
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace brdma::preload {

// As write(2) to the node: the one command, EOPNOTSUPP for every other and EINVAL for what is none. (The file behind
// the node would say ENOSPC, which means something else.)
[[nodiscard]] ssize_t uverbs_command(const void* bytes, std::size_t count);

// Does this write begin a CREATE_COMP_CHANNEL command?
[[nodiscard]] bool is_create_completion_channel(const void* bytes, std::size_t count);

// As write(2) to the node: `count`, or -1 with errno, as the kernel has it: EINVAL another length than it should have,
// ENOSPC no room for the answer, EFAULT the answer's address is none. Call only if the above says yes.
[[nodiscard]] ssize_t create_completion_channel(const void* bytes, std::size_t count);

}  // namespace brdma::preload
