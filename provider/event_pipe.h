// event_pipe.h - what stands behind ibv_comp_channel::fd and ibv_context::async_fd: one descriptor that the program
// reads (or polls) and we write. A pipe whose read end was opened again for both directions, so that it needs no
// companion: nobody tells us when the program closes it.
//
// Records are of one size and written whole. The program owns the descriptor's flags (O_NONBLOCK), so we write and
// purge through an open file description of our own (open_writer) and never block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "base/result.h"

namespace brdma::provider {

// Close-on-exec, blocking. Errors: EMFILE, ENFILE; ENOENT where /proc is not mounted.
[[nodiscard]] Result<int, Status> make_event_pipe();

// A second description of the same pipe, non-blocking, close-on-exec, that counts as reader and as writer. EINVAL when
// `fd` is no pipe (any more).
[[nodiscard]] Result<int, Status> open_writer(int fd);

// Writes one record. False: no room, even after enlarging the pipe (a program that reads none of thousands).
[[nodiscard]] bool write_record(int writer_fd, std::span<const std::byte> record);

// Takes the records that `is_ours` recognises out of the pipe, keeping the others in order; answers how many there
// were. No other writer may be active.
[[nodiscard]] std::uint32_t purge_records(int writer_fd, std::size_t record_bytes,
                                          const std::function<bool(std::span<const std::byte>)>& is_ours);

}  // namespace brdma::provider
