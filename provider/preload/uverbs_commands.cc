#include "preload/uverbs_commands.h"

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "event_pipe.h"

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

CreateCompletionChannel load(const void* bytes) {
  CreateCompletionChannel command;
  std::memcpy(&command, bytes, sizeof command);
  return command;
}

}  // namespace

bool is_create_completion_channel(const void* bytes, std::size_t count) {
  if (count != sizeof(CreateCompletionChannel)) return false;
  const CreateCompletionChannel command = load(bytes);
  return command.command == kCommand && command.in_words == 4 && command.out_words == 1 && command.response != 0;
}

ssize_t create_completion_channel(const void* bytes, std::size_t count) {
  const auto pipe = provider::make_event_pipe();
  if (!pipe) {
    errno = pipe.reason().error();
    return -1;
  }
  const auto fd = static_cast<std::uint32_t>(pipe.value());
  std::memcpy(reinterpret_cast<void*>(load(bytes).response), &fd, sizeof fd);
  return static_cast<ssize_t>(count);
}

}  // namespace brdma::preload
