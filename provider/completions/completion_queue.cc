// Completion queues and the events of completion channels.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "events/channel_sleep.h"
#include "events/event_channels.h"
#include "verbs/objects.h"
#include "verbs/placed.h"
#include "verbs/verbs.h"

namespace brdma::provider {

// The engine's Completion is ibv_wc, member for member: polled straight into the program's array.
static_assert(sizeof(Completion) == sizeof(ibv_wc));
static_assert(offsetof(Completion, status) == offsetof(ibv_wc, status));
static_assert(offsetof(Completion, opcode) == offsetof(ibv_wc, opcode));
static_assert(offsetof(Completion, vendor_error) == offsetof(ibv_wc, vendor_err));
static_assert(offsetof(Completion, byte_length) == offsetof(ibv_wc, byte_len));
static_assert(offsetof(Completion, immediate_be) == offsetof(ibv_wc, imm_data));
static_assert(offsetof(Completion, qp_num) == offsetof(ibv_wc, qp_num));
static_assert(offsetof(Completion, source_qp) == offsetof(ibv_wc, src_qp));
static_assert(offsetof(Completion, flags) == offsetof(ibv_wc, wc_flags));
static_assert(offsetof(Completion, pkey_index) == offsetof(ibv_wc, pkey_index));
static_assert(offsetof(Completion, slid) == offsetof(ibv_wc, slid));
static_assert(offsetof(Completion, sl) == offsetof(ibv_wc, sl));
static_assert(offsetof(Completion, dlid_path_bits) == offsetof(ibv_wc, dlid_path_bits));
static_assert(static_cast<unsigned>(CompletionStatus::kFlushed) == IBV_WC_WR_FLUSH_ERR);
static_assert(static_cast<unsigned>(CompletionStatus::kRetryExceeded) == IBV_WC_RETRY_EXC_ERR);
static_assert(static_cast<unsigned>(CompletionStatus::kGeneralError) == IBV_WC_GENERAL_ERR);
static_assert(static_cast<unsigned>(CompletionOpcode::kReceive) == IBV_WC_RECV);
static_assert(static_cast<unsigned>(CompletionOpcode::kReceiveRdmaWithImm) == IBV_WC_RECV_RDMA_WITH_IMM);
static_assert(static_cast<unsigned>(CompletionOpcode::kFetchAdd) == IBV_WC_FETCH_ADD);
static_assert(static_cast<unsigned>(CompletionOpcode::kFlush) == abi::kWcFlush);
static_assert(static_cast<unsigned>(CompletionOpcode::kAtomicWrite) == abi::kWcAtomicWrite);
static_assert(kCompletionWithGrh == IBV_WC_GRH && kCompletionWithImm == IBV_WC_WITH_IMM &&
              kCompletionWithInvalidate == IBV_WC_WITH_INV);

// A record is the ibv_cq's address, which ibv_get_cq_event reads back.
void CompletionQueueObject::write_event() {
  if (channel == nullptr) return;
  const ibv_cq* self = &core.cq;
  if (taken_by_reader(*channel, self) || channel->write(std::as_bytes(std::span(&self, 1))))
    ++completion_events_written;
}

void wait_for_acknowledgements(pthread_mutex_t& mutex, pthread_cond_t& cond, const std::uint32_t& completed,
                               std::uint32_t written) {
  pthread_mutex_lock(&mutex);
  while (completed != written) pthread_cond_wait(&cond, &mutex);
  pthread_mutex_unlock(&mutex);
}

namespace verbs {
namespace {

// Programs rely on the room that hardware leaves by rounding up. ib_send_lat -e requests one entry, takes whichever
// event comes next for that of its send, and so leaves a completion behind once the peer's reply overtakes an
// acknowledgement.
constexpr int kCompletionsMin = 16;

std::uint32_t capacity_for(int entries) { return static_cast<std::uint32_t>(std::max(entries, kCompletionsMin)); }

// The program can no longer acknowledge events that it has not read by now: they are taken back, as in the kernel. A
// later CQ may also get this one's address.
void purge_events(CompletionQueueObject& cq, OpenDevice& device) {
  const ibv_cq* self = &cq.core.cq;
  if (cq.channel != nullptr) event_channel_left(*cq.channel, self);
  const std::lock_guard held(device.events());
  if (cq.channel != nullptr) {
    cq.completion_events_written -= cq.channel->purge(
        cq.channel_fd, sizeof self,
        [self](std::span<const std::byte> record) { return std::memcmp(record.data(), &self, sizeof self) == 0; });
  }
  if (cq.async_events_written != 0) cq.async_events_written -= device.purge_async_events(self);
}

std::optional<std::size_t> shard_of_thread(const ProtectionDomainObject* pd) {
  return pd == nullptr ? std::nullopt : shard_of(*pd);
}

}  // namespace

// The granted size is the same in every ring.
Result<CompletionQueue*, Status> ring_in(CompletionQueueObject& cq, OpenDevice& device, std::size_t shard) {
  if (CompletionQueue* const there = cq.rings.in(shard); there != nullptr) return there;
  Context& context = device.shards()[shard];
  CompletionQueue* made = nullptr;
  {
    Context::Session session(context);
    auto created = session.engine().create_cq(static_cast<std::uint32_t>(cq.core.cq.cqe), &cq, cq.options);
    if (!created) return created.reason();
    made = created.value();
  }
  cq.rings.add({.context = &context, .engine = made, .shard = shard});
  return made;
}

// libibverbs fills in the ibv_cq's own members after we return; until then nothing can complete into it.
ibv_cq* make_completion_queue(ibv_context* context, int entries, ibv_comp_channel* channel, int vector,
                              const CqOptions& options, ProtectionDomainObject* pd) {
  OpenDevice& device = device_of(context);
  if (entries < 1 || entries > static_cast<int>(kCompletionsMax)) return fail<ibv_cq>(EINVAL);
  if (vector < 0 || vector >= context->num_comp_vectors) return fail<ibv_cq>(EINVAL);
  std::optional<std::size_t> shard = shard_of_thread(pd);
  auto cq = make_object<CompletionQueueObject>(pd);
  if (cq == nullptr) return nullptr;
  cq->alone = device.shards().size() == 1;
  cq->options = options;
  cq->core.cq.cqe = static_cast<int>(capacity_for(entries));
  if (channel != nullptr) {
    cq->channel = find_completion_channel(channel->fd);
    if (cq->channel == nullptr) return fail<ibv_cq>(EINVAL);
    cq->channel_fd = channel->fd;
  }
  if (cq->alone) shard = 0;
  const std::lock_guard held(device.objects());
  if (shard) {
    if (const auto ring = ring_in(*cq, device, *shard); !ring) return fail<ibv_cq>(ring.reason().error());
  }
  cq->core.cq.handle = device.next_handle();
  if (cq->channel != nullptr)
    event_channel_joined(*cq->channel, cq->channel_fd, &cq->core.cq, &device,
                         cq->alone ? &device.shards().first() : nullptr);
  device.undestroyed().completion_queues.insert(cq.get());
  return &cq.release()->core.cq;
}

extern "C" {

ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel, int vector) {
  return make_completion_queue(context, entries, channel, vector, {}, nullptr);
}

int destroy_cq(ibv_cq* ibv) {
  CompletionQueueObject& cq = object_of(ibv);
  OpenDevice& device = device_of(ibv->context);
  {
    const std::lock_guard held(device.objects());
    for (std::size_t i = 0; i < cq.rings.size(); ++i) {
      if (Context::Session(*cq.rings[i].context).engine().in_use(cq.rings[i].engine)) return EBUSY;
    }
    for (std::size_t i = 0; i < cq.rings.size(); ++i) {
      const Status status = Context::Session(*cq.rings[i].context).engine().destroy_cq(cq.rings[i].engine);
      if (!status.ok()) return status.error();
    }
    device.undestroyed().completion_queues.erase(&cq);
  }
  purge_events(cq, device);
  wait_for_acknowledgements(ibv->mutex, ibv->cond, ibv->comp_events_completed, cq.completion_events_written);
  wait_for_acknowledgements(ibv->mutex, ibv->cond, ibv->async_events_completed, cq.async_events_written);
  delete_object(&cq);
  return 0;
}

// Its completions must fit into the requested size, though more is granted: the same rule at every size.
int resize_cq(ibv_cq* ibv, int entries) {
  if (entries < 1 || entries > static_cast<int>(kCompletionsMax)) return EINVAL;
  CompletionQueueObject& cq = object_of(ibv);
  const std::lock_guard held(device_of(ibv->context).objects());
  const std::uint32_t capacity = capacity_for(entries);
  std::size_t unpolled = 0;
  for (std::size_t i = 0; i < cq.rings.size(); ++i) {
    unpolled += Context::Session(*cq.rings[i].context).engine().cq_unpolled(cq.rings[i].engine);
  }
  if (unpolled > static_cast<std::size_t>(entries)) return EINVAL;
  for (std::size_t i = 0; i < cq.rings.size(); ++i) {
    const Status status = Context::Session(*cq.rings[i].context).engine().resize_cq(cq.rings[i].engine, capacity);
    if (!status.ok()) return status.error();
  }
  ibv->cqe = static_cast<int>(capacity);
  return 0;
}

// Of each ring by itself: no order exists between them, so neither does a common count.
int modify_cq(ibv_cq* ibv, ibv_modify_cq_attr* wanted) {
  if (wanted->attr_mask == 0) return EINVAL;
  if ((wanted->attr_mask & ~std::uint32_t{IBV_CQ_ATTR_MODERATE}) != 0) return EOPNOTSUPP;
  CompletionQueueObject& cq = object_of(ibv);
  const std::lock_guard held(device_of(ibv->context).objects());
  cq.options.moderation = {.count = wanted->moderate.cq_count,
                           .period = Duration::from_ns(std::int64_t{1000} * wanted->moderate.cq_period)};
  for (std::size_t i = 0; i < cq.rings.size(); ++i) {
    Context::Session(*cq.rings[i].context).engine().moderate_cq(cq.rings[i].engine, cq.options.moderation);
  }
  return 0;
}

int poll_cq(ibv_cq* ibv, int entries, ibv_wc* completions) {
  if (entries <= 0) return 0;
  CompletionQueueObject& cq = object_of(ibv);
  const std::span<Completion> out(reinterpret_cast<Completion*>(completions), static_cast<std::size_t>(entries));
  return static_cast<int>(cq.rings.poll(out));
}

int req_notify_cq(ibv_cq* ibv, int solicited_only) {
  CompletionQueueObject& cq = object_of(ibv);
  cq.rings.arm(solicited_only != 0, cq.alone);
  return 0;
}

}  // extern "C"

}  // namespace verbs
}  // namespace brdma::provider
