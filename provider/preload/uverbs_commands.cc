#include "preload/uverbs_commands.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "events/event_channels.h"
#include "preload/descriptors.h"
#include "rdma_cm/user_memory.h"

namespace brdma::preload {
namespace {

struct CreateCompletionChannel {
  std::uint32_t command;
  std::uint16_t in_words;
  std::uint16_t out_words;
  std::uint64_t response;
};
static_assert(sizeof(CreateCompletionChannel) == 16);
constexpr std::uint32_t kCommand = 17;

constexpr std::size_t kHeaderBytes = offsetof(CreateCompletionChannel, response), kWordBytes = 4;

int fail(int error) {
  errno = error;
  return -1;
}

}  // namespace

ssize_t uverbs_command(const void* bytes, std::size_t count) {
  if (is_create_completion_channel(bytes, count)) return create_completion_channel(bytes, count);
  return fail(count < kHeaderBytes ? EINVAL : EOPNOTSUPP);
}

bool is_create_completion_channel(const void* bytes, std::size_t count) {
  std::uint32_t command = 0;
  return count >= kHeaderBytes && provider::copy_from_program(&command, bytes, sizeof command) && command == kCommand;
}

ssize_t create_completion_channel(const void* bytes, std::size_t count) {
  CreateCompletionChannel command{};
  if (!provider::copy_from_program(&command, bytes, std::min(count, sizeof command))) return fail(EFAULT);
  if (count != sizeof command || command.in_words * kWordBytes != count) return fail(EINVAL);
  std::uint32_t fd = 0;
  if (command.out_words * kWordBytes < sizeof fd) return fail(ENOSPC);
  const auto made = provider::make_event_channel(provider::EventsOf::kCompletions);
  if (!made) return fail(made.reason().error());
  fd = static_cast<std::uint32_t>(made.value().fd);
  if (!provider::copy_to_program(reinterpret_cast<void*>(command.response), &fd, sizeof fd)) {
    node_marks.clear(made.value().fd);
    ::syscall(SYS_close, made.value().fd);
    provider::event_channel_closed(made.value().pipe);
    return fail(EFAULT);
  }
  return static_cast<ssize_t>(count);
}

}  // namespace brdma::preload
