// Protection domains, regions, completion queues, queue pairs: created, used, destroyed when unused.
#include <algorithm>
#include <cerrno>

#include "device/engine_impl.h"
#include "qp/queues/shared_receive_queue.h"
#include "qp/state/limits.h"
#include "qp/state/management.h"

namespace brdma {
namespace {

constexpr std::uint32_t kCqEntriesMax = 1u << 22;

bool within_limits(const QpCapabilities& asked) {
  return asked.send_wr_max <= qp::kWorkRequestsMax && asked.receive_wr_max <= qp::kWorkRequestsMax &&
         asked.send_sge_max <= qp::kSgesMax && asked.receive_sge_max <= qp::kSgesMax &&
         asked.inline_bytes_max <= qp::kInlineBytesMax;
}

// An application that requests no capability may still post empty messages.
QpCapabilities granted(QpCapabilities asked) {
  asked.send_wr_max = std::max(asked.send_wr_max, 1u);
  asked.receive_wr_max = std::max(asked.receive_wr_max, 1u);
  asked.send_sge_max = std::max(asked.send_sge_max, 1u);
  asked.receive_sge_max = std::max(asked.receive_sge_max, 1u);
  return asked;
}

// Each kind has the objects that it needs, and no other.
bool has_objects(const QpCreate& request) {
  const bool pd = request.pd != nullptr, sends = request.send_cq != nullptr, receives = request.receive_cq != nullptr;
  if (request.xrc == XrcRole::kNone) return pd && sends && receives;
  if (request.type != QpType::kRc || request.srq != nullptr || receives) return false;
  const bool initiates = request.xrc == XrcRole::kInitiator;
  return pd == initiates && sends == initiates;
}

// A queue pair, or its end, counts where it is used.
void count_users(const qp::Identity& identity, int change) {
  const auto add = [change](std::uint32_t& users) { users += static_cast<std::uint32_t>(change); };
  if (identity.xrc == XrcRole::kTarget) return;  // it has what its shared receive queues have
  add(identity.pd->users);
  add(identity.send_cq->queue_pairs);
  if (identity.xrc == XrcRole::kNone) add(identity.receive_cq->queue_pairs);
}

}  // namespace

ProtectionDomain* Engine::alloc_pd() { return impl_->memory.alloc_pd(); }
Status Engine::dealloc_pd(ProtectionDomain* pd) { return impl_->memory.dealloc_pd(pd); }
bool Engine::in_use(const ProtectionDomain* pd) const { return pd->users > 0; }

Result<MemoryRegion*, Status> Engine::register_memory(ProtectionDomain* pd, std::uint64_t address, std::uint64_t length,
                                                      std::uint64_t iova, std::uint32_t access) {
  return impl_->memory.add(pd, address, length, iova, access);
}
Status Engine::deregister_memory(MemoryRegion* region) { return impl_->memory.remove(region); }
Status Engine::change_memory(MemoryRegion* region, std::uint32_t mask, const MemoryRegion& to) {
  return impl_->memory.change(region, mask, to);
}
Result<MemoryRegion*, Status> Engine::register_null(ProtectionDomain* pd, const std::byte* zeros, std::byte* sink) {
  static_assert(memory::kNullBytesMax >= qp::kMessageBytesMax);
  return impl_->memory.add_null(pd, zeros, sink);
}
Result<std::byte*, Status> Engine::locate(const ProtectionDomain* pd, std::uint32_t lkey, std::uint64_t address,
                                          std::uint64_t length, std::uint32_t needed) const {
  std::byte* bytes = nullptr;
  switch (impl_->memory.resolve(memory::Accessor{pd}, lkey, address, length, needed, &bytes)) {
    case memory::Fault::kNone:
      return bytes;
    case memory::Fault::kBadKey:
      return Status{ENOENT};
    case memory::Fault::kWrongDomain:
    case memory::Fault::kNoPermission:
      return Status{EPERM};
    default:
      return Status{EFAULT};
  }
}
Result<MemoryRegion*, Status> Engine::alloc_window(ProtectionDomain* pd, bool type2) {
  return impl_->memory.add_window(pd, type2);
}
Status Engine::dealloc_window(MemoryRegion* window) { return impl_->memory.remove_window(window); }
Status Engine::watch_writes(MemoryRegion* region, void* user) { return impl_->memory.watch(region, true, user); }
Status Engine::unwatch_writes(MemoryRegion* region) { return impl_->memory.watch(region, false, nullptr); }
MemoryRegionInfo Engine::info(const MemoryRegion* region) const { return {region->key, region->key}; }

Result<CompletionQueue*, Status> Engine::create_cq(std::uint32_t entries, void* user, const CqOptions& options) {
  if (entries == 0 || entries > kCqEntriesMax) return Status{EINVAL};
  CompletionQueue* const cq = impl_->queues.add(std::make_unique<CompletionQueue>(entries, user, options));
  impl_->queues.set_moderated(cq, options.moderation.delays());
  return cq;
}

void Engine::moderate_cq(CompletionQueue* cq, const CqModeration& moderation) {
  impl_->queues.set_moderated(cq, moderation.delays());
  if (cq->moderate(moderation)) impl_->notifications.push_back({Notification::Kind::kCompletion, cq->user()});
}

Status Engine::destroy_cq(CompletionQueue* cq) {
  if (cq->queue_pairs > 0) return Status{EBUSY};
  impl_->settle();
  return impl_->queues.remove(cq) ? Status::success() : Status{EINVAL};
}

bool Engine::in_use(const CompletionQueue* cq) const { return cq->queue_pairs > 0; }

Status Engine::resize_cq(CompletionQueue* cq, std::uint32_t entries) {
  return entries > kCqEntriesMax ? Status{EINVAL} : cq->resize(entries);
}
std::uint32_t Engine::cq_capacity(const CompletionQueue* cq) const { return cq->capacity(); }
std::size_t Engine::cq_unpolled(const CompletionQueue* cq) const { return cq->size(); }

Result<QueuePair*, Status> Engine::create_qp(QpCreate& request) {
  if (!has_objects(request)) return Status{EINVAL};
  if (request.srq != nullptr || request.xrc != XrcRole::kNone)
    request.capabilities.receive_wr_max = request.capabilities.receive_sge_max = 0;
  if (!within_limits(request.capabilities)) return Status{EINVAL};
  if (!impl_->admits_queue_pair()) return Status{ENOMEM};
  const auto qpn = impl_->queue_pairs.allocate();
  if (!qpn) {
    impl_->device_use.set_queue_pairs(impl_->queue_pairs.size());
    return Status{ENOMEM};
  }
  impl_->environment.count(Counter::kQpsCreated);
  request.capabilities = granted(request.capabilities);
  if (request.srq != nullptr || request.xrc != XrcRole::kNone)
    request.capabilities.receive_wr_max = request.capabilities.receive_sge_max = 0;
  qp::Identity identity;
  identity.qpn = *qpn;
  identity.type = request.type;
  identity.capabilities = request.capabilities;
  identity.attributes.path_mtu = request.path_mtu;
  identity.signal_all = request.signal_all;
  identity.user = request.user;
  identity.xrc = request.xrc;
  identity.xrc_domain = request.xrc_domain;
  qp::XrcQueues& xrc = impl_->environment.xrc;
  identity.pd = request.pd != nullptr ? request.pd : &xrc.no_domain;
  identity.send_cq = request.send_cq != nullptr ? request.send_cq : &xrc.no_completions;
  identity.receive_cq = request.receive_cq != nullptr ? request.receive_cq : &xrc.no_completions;
  identity.srq = request.srq;
  identity.recovery = &impl_->settings.config.recovery;
  count_users(identity, 1);
  impl_->prefetch.set_user_bytes(request.user_bytes);
  QueuePair* const qp = impl_->queue_pairs.add(std::make_unique<QueuePair>(impl_->environment, identity));
  if (request.srq != nullptr) request.srq->queue_pairs.push_back(qp);
  return qp;
}

bool Engine::has_queue_pair_numbers() const { return impl_->queue_pairs.size() < impl_->queue_pairs.queue_pairs_max(); }
void Engine::add_slot(std::uint32_t slot) {
  impl_->queue_pairs.add_slot(slot);
  impl_->environment.slots = &impl_->queue_pairs.slots();
}
const std::vector<std::uint32_t>& Engine::slots() const { return impl_->queue_pairs.slots(); }

Status Engine::destroy_qp(QueuePair* qp) {
  Impl& me = *impl_;
  if (me.groups.is_member(qp)) return Status{EBUSY};
  me.settle();
  const qp::Identity identity = qp->identity();
  me.schedule.forget(qp);
  qp->set_in_flight(*identity.send_cq, 0);
  me.prefetch.forget(qp);
  me.timers.forget(qp);
  if (identity.srq != nullptr) std::erase(identity.srq->queue_pairs, qp);
  me.queue_pairs.remove(qp);
  me.device_use.set_queue_pairs(me.queue_pairs.size());
  me.memory.forget_queue_pair(identity.qpn);
  me.environment.count(Counter::kQpsDestroyed);
  identity.send_cq->purge(identity.qpn);
  identity.receive_cq->purge(identity.qpn);
  count_users(identity, -1);
  return Status::success();
}

void Engine::send_final_acks(QueuePair* qp) {
  qp->manage().send_final_acks();
  impl_->touched(qp);
}

void Engine::send_final_acks() {
  impl_->queue_pairs.for_each([this](QueuePair* qp) { send_final_acks(qp); });
}

std::size_t Engine::queue_pairs() const { return impl_->queue_pairs.size(); }

std::uint32_t Engine::qp_num(const QueuePair* qp) const { return qp->identity().qpn; }

Status Engine::modify_qp(QueuePair* qp, const QpAttributes& attributes, std::uint32_t mask, Instant now) {
  impl_->now = now;
  const Status status = qp->modify(attributes, mask, now);
  if (status.ok()) {
    impl_->note_peer(qp);
    impl_->touched(qp);
  }
  return status;
}

QpAttributes Engine::query_qp(const QueuePair* qp) const { return qp->identity().attributes; }
bool Engine::sq_draining(const QueuePair* qp) const { return qp->draining(); }
QpCapabilities Engine::qp_capabilities(const QueuePair* qp) const { return qp->identity().capabilities; }

Status Engine::check_send(const QueuePair* qp, std::span<const SendRequest> requests) const {
  return qp->check_send(requests);
}

Status Engine::post_send(QueuePair* qp, std::span<const SendRequest> requests, Instant now, std::size_t& posted) {
  impl_->prefetch.on_post(qp, impl_->queue_pairs);
  const Status status = qp->post_send(requests, now, posted);
  if (posted > 0) impl_->touched(qp);
  return status;
}

Status Engine::post_send(QueuePair* qp, const SendRequest& request, Instant now) {
  std::size_t posted = 0;
  return post_send(qp, {&request, 1}, now, posted);
}

Status Engine::post_receive(QueuePair* qp, const ReceiveRequest& request, Instant now) {
  const Status status = qp->post_receive(request, now);
  if (status.ok()) impl_->touched(qp);
  return status;
}

std::size_t Engine::poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times) {
  return cq->poll(out, times);
}
void Engine::request_notify(CompletionQueue* cq, bool solicited_only) {
  if (cq->arm(solicited_only)) impl_->notifications.push_back({Notification::Kind::kCompletion, cq->user()});
}
void Engine::cancel_notify(CompletionQueue* cq) { cq->disarm(); }

}  // namespace brdma
