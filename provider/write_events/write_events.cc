// Functions that programs call by name: bitmaprdma/write_events.h. Separate, because the library exports them.
#include "bitmaprdma/write_events.h"

#include <cerrno>
#include <span>

#include "write_events/write_channel.h"

using brdma::provider::object_of;

#define BRDMA_EXPORTED __attribute__((visibility("default")))

namespace {

// The default result of a C function.
template <class Answer>
Answer refuse(int error, Answer answer) {
  errno = error;
  return answer;
}

}  // namespace

extern "C" {

BRDMA_EXPORTED brdma_write_channel* brdma_create_write_channel(ibv_context* context, uint32_t events_max) {
  const auto made = brdma::provider::create_write_channel(context, events_max);
  return made ? made.value() : refuse<brdma_write_channel*>(made.reason().error(), nullptr);
}

BRDMA_EXPORTED int brdma_destroy_write_channel(brdma_write_channel* channel) {
  if (channel == nullptr) return EINVAL;
  brdma::provider::destroy_write_channel(object_of(channel));
  return 0;
}

BRDMA_EXPORTED int brdma_watch_writes(brdma_write_channel* channel, ibv_mr* mr, uint64_t user) {
  if (channel == nullptr || mr == nullptr) return EINVAL;
  return brdma::provider::watch_writes(object_of(channel), mr, user).error();
}

BRDMA_EXPORTED int brdma_unwatch_writes(brdma_write_channel* channel, ibv_mr* mr) {
  if (channel == nullptr || mr == nullptr) return EINVAL;
  return brdma::provider::unwatch_writes(object_of(channel), mr).error();
}

BRDMA_EXPORTED int brdma_get_write_events(brdma_write_channel* channel, brdma_write_event* events, int count) {
  if (channel == nullptr || events == nullptr || count < 1) return refuse(EINVAL, -1);
  const auto queue = object_of(channel).queue;  // the channel may go while this waits
  const auto taken = queue->take(std::span(events, static_cast<std::size_t>(count)));
  return taken ? static_cast<int>(taken.value()) : refuse(taken.reason().error(), -1);
}

BRDMA_EXPORTED uint64_t brdma_lost_write_events(brdma_write_channel* channel) {
  return channel == nullptr ? 0 : brdma::provider::lost_write_events(object_of(channel));
}

}  // extern "C"
