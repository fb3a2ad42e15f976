// Extended completion queues: one completion at a time, its members on request, with its time.
#include <cerrno>
#include <ctime>
#include <memory>
#include <optional>
#include <span>

#include "io/shard/clock.h"
#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
namespace {

constexpr std::uint64_t kTimestamps =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
constexpr std::uint64_t kMembers = IBV_WC_STANDARD_FLAGS | kTimestamps;
constexpr std::uint32_t kFlags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

CompletionQueueObject& object_of_ex(ibv_cq_ex* cq) { return *reinterpret_cast<CompletionQueueObject*>(cq); }
const LazyPoller& current(ibv_cq_ex* cq) { return *object_of_ex(cq).poller; }

int next_poll(ibv_cq_ex* ibv) {
  CompletionQueueObject& cq = object_of_ex(ibv);
  LazyPoller& poller = *cq.poller;
  if (is_abandoned(ibv->context)) [[unlikely]]
    return EIO;
  if (cq.rings.poll({&poller.completion, 1}, {&poller.made, 1}) == 0) return ENOENT;
  ibv->wr_id = poller.completion.wr_id;
  ibv->status = static_cast<ibv_wc_status>(poller.completion.status);
  return 0;
}

void end_poll(ibv_cq_ex* ibv) {
  LazyPoller& poller = *object_of_ex(ibv).poller;
  if (poller.locked) poller.mutex.unlock();
}

// Stays locked only if there is a completion: otherwise the program does not call ibv_end_poll().
int start_poll(ibv_cq_ex* ibv, ibv_poll_cq_attr* attributes) {
  if (attributes != nullptr && attributes->comp_mask != 0) return EINVAL;
  if (is_abandoned(ibv->context)) [[unlikely]] {
    complain_of_abandoned();
    return EIO;
  }
  LazyPoller& poller = *object_of_ex(ibv).poller;
  if (poller.locked) poller.mutex.lock();
  const int error = next_poll(ibv);
  if (error != 0) end_poll(ibv);
  return error;
}

std::uint64_t wall_clock_ns(Instant monotonic) {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  const std::int64_t now = std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
  return static_cast<std::uint64_t>(now - (io::monotonic_now() - monotonic).ns());
}

// Readers of unrequested members stay unset, as with other drivers; those without a flag are always set.
void set_readers(ibv_cq_ex& cq, std::uint64_t flags) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = +[](ibv_cq_ex* c) { return static_cast<ibv_wc_opcode>(current(c).completion.opcode); };
  cq.read_vendor_err = +[](ibv_cq_ex* c) { return current(c).completion.vendor_error; };
  cq.read_wc_flags = +[](ibv_cq_ex* c) { return static_cast<unsigned>(current(c).completion.flags); };
  const auto set = [flags](std::uint64_t flag, auto& slot, auto function) {
    if ((flags & flag) != 0) slot = function;
  };
  set(
      IBV_WC_EX_WITH_BYTE_LEN, cq.read_byte_len, +[](ibv_cq_ex* c) { return current(c).completion.byte_length; });
  set(
      IBV_WC_EX_WITH_IMM, cq.read_imm_data, +[](ibv_cq_ex* c) -> __be32 { return current(c).completion.immediate_be; });
  set(
      IBV_WC_EX_WITH_QP_NUM, cq.read_qp_num, +[](ibv_cq_ex* c) { return current(c).completion.qp_num; });
  set(
      IBV_WC_EX_WITH_SRC_QP, cq.read_src_qp, +[](ibv_cq_ex* c) { return current(c).completion.source_qp; });
  set(
      IBV_WC_EX_WITH_SLID, cq.read_slid, +[](ibv_cq_ex* c) { return std::uint32_t{current(c).completion.slid}; });
  set(
      IBV_WC_EX_WITH_SL, cq.read_sl, +[](ibv_cq_ex* c) { return current(c).completion.sl; });
  set(
      IBV_WC_EX_WITH_DLID_PATH_BITS, cq.read_dlid_path_bits,
      +[](ibv_cq_ex* c) { return current(c).completion.dlid_path_bits; });
  set(
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, cq.read_completion_ts,
      +[](ibv_cq_ex* c) { return static_cast<std::uint64_t>(current(c).made.ns()); });
  set(
      IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK, cq.read_completion_wallclock_ns,
      +[](ibv_cq_ex* c) { return wall_clock_ns(current(c).made); });
}

// 0, or why this cannot be made: VLAN, flow tag and tag matching have no meaning here.
int check(const ibv_cq_init_attr_ex& wanted, std::uint32_t flags) {
  if ((wanted.wc_flags & ~kMembers) != 0 || (flags & ~kFlags) != 0) return EOPNOTSUPP;
  if ((wanted.comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD}) != 0)
    return EOPNOTSUPP;
  return wanted.cqe > kCompletionsMax ? EINVAL : 0;
}

// Of its thread, and of its memory.
ProtectionDomainObject* domain_of(const ibv_cq_init_attr_ex& wanted) {
  const bool named = (wanted.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 && wanted.parent_domain != nullptr;
  return named ? &object_of(wanted.parent_domain) : nullptr;
}

}  // namespace

extern "C" {

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  const std::uint32_t flags = (wanted->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? wanted->flags : 0;
  if (const int error = check(*wanted, flags); error != 0) return fail<ibv_cq_ex>(error);
  auto poller = std::make_unique<LazyPoller>();
  poller->locked = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) == 0;
  const CqOptions options{.stamped = (wanted->wc_flags & kTimestamps) != 0,
                          .ignore_overrun = (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) != 0};
  ibv_cq* ibv = make_completion_queue(context, static_cast<int>(wanted->cqe), wanted->channel,
                                      static_cast<int>(wanted->comp_vector), options, domain_of(*wanted));
  if (ibv == nullptr) return nullptr;
  CompletionQueueObject& cq = object_of(ibv);
  cq.poller = std::move(poller);
  set_readers(cq.core.cq_ex, wanted->wc_flags);
  return &cq.core.cq_ex;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
