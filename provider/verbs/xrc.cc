#include "verbs/xrc.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <mutex>
#include <vector>

#include "verbs/objects.h"
#include "verbs/placed.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
namespace {

// Domains of this process.
std::mutex domains_lock;
std::vector<std::weak_ptr<const XrcDomain>>& domains() {
  static std::vector<std::weak_ptr<const XrcDomain>> list;
  return list;
}

bool same_place(const XrcDomain& a, const XrcDomain& b) {
  return a.has_file && b.has_file && a.device == b.device && a.file_system == b.file_system && a.inode == b.inode;
}

// The smallest that none has; 0: all are taken. domains_lock held.
std::uint16_t free_number() {
  std::vector<bool> taken(domains().size() + 2);
  for (const auto& weak : domains()) {
    if (const auto domain = weak.lock(); domain != nullptr && domain->number < taken.size())
      taken[domain->number] = true;
  }
  const auto number = static_cast<std::size_t>(std::find(taken.begin() + 1, taken.end(), false) - taken.begin());
  return number <= UINT16_MAX ? static_cast<std::uint16_t>(number) : std::uint16_t{0};
}

// Null: no such domain. domains_lock held.
std::shared_ptr<const XrcDomain> find(const XrcDomain& place) {
  for (const auto& weak : domains()) {
    if (auto domain = weak.lock(); domain != nullptr && same_place(*domain, place)) return domain;
  }
  return nullptr;
}

// As the kernel has it: EBADF no such descriptor; EAGAIN there is none, and it may not be made; EINVAL there is one.
// ENOMEM: too many.
Result<std::shared_ptr<const XrcDomain>, int> domain_of(OpenDevice& device, int fd, int flags) {
  auto made = std::make_shared<XrcDomain>();
  made->device = &device.objects();
  const std::lock_guard held(domains_lock);
  std::erase_if(domains(), [](const auto& weak) { return weak.expired(); });
  if (fd >= 0) {
    struct stat file {};
    if (::fstat(fd, &file) != 0) return EBADF;
    made->file_system = file.st_dev;
    made->inode = file.st_ino;
    made->has_file = true;
    auto known = find(*made);
    if (known == nullptr && (flags & O_CREAT) == 0) return EAGAIN;
    if (known != nullptr && (flags & O_EXCL) != 0) return EINVAL;
    if (known != nullptr) return known;
  }
  made->number = free_number();
  if (made->number == 0) return ENOMEM;
  made->shard = device.least_used_shard();
  domains().push_back(made);
  return std::shared_ptr<const XrcDomain>(std::move(made));
}

// 0, or the reason against making it.
int check(ibv_context* context, const ibv_srq_init_attr_ex& wanted) {
  constexpr std::uint32_t kNeeded =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  if (wanted.srq_type != IBV_SRQT_XRC) return EOPNOTSUPP;
  if (wanted.comp_mask != kNeeded) return EINVAL;
  if (wanted.pd == nullptr || wanted.xrcd == nullptr || wanted.cq == nullptr) return EINVAL;
  if (wanted.pd->context != context || wanted.xrcd->context != context || wanted.cq->context != context) return EINVAL;
  return 0;
}

// libibverbs does it for those of the basic kind.
void fill_core(ibv_srq& core, ibv_context* context, const ibv_srq_init_attr_ex& wanted) {
  core.context = context;
  core.srq_context = wanted.srq_context;
  core.pd = wanted.pd;
  core.events_completed = 0;
  pthread_mutex_init(&core.mutex, nullptr);
  pthread_cond_init(&core.cond, nullptr);
}

ibv_srq* create_basic(ibv_context* context, ibv_srq_init_attr_ex& wanted) {
  ibv_srq_init_attr plain{.srq_context = wanted.srq_context, .attr = wanted.attr};
  ibv_srq* const srq = create_srq(wanted.pd, &plain);
  if (srq == nullptr) return nullptr;
  wanted.attr = plain.attr;
  fill_core(*srq, context, wanted);
  return srq;
}

bool is_basic(ibv_context* context, const ibv_srq_init_attr_ex& wanted) {
  const bool basic = (wanted.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || wanted.srq_type == IBV_SRQT_BASIC;
  return basic && (wanted.comp_mask & ~(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD)) == 0 && wanted.pd != nullptr &&
         wanted.pd->context == context;
}

}  // namespace

extern "C" {

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* wanted) {
  constexpr std::uint32_t kNeeded = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
  if (wanted->comp_mask != kNeeded) return fail<ibv_xrcd>(EINVAL);
  OpenDevice& device = device_of(context);
  const std::lock_guard held(device.objects());
  auto domain = domain_of(device, wanted->fd, wanted->oflags);
  if (!domain) return fail<ibv_xrcd>(domain.reason());
  auto object = std::make_unique<XrcDomainObject>();
  object->domain = std::move(domain.value());
  object->core.xrcd.context = context;
  return &object.release()->core.xrcd;
}

int close_xrcd(ibv_xrcd* xrcd) {
  const std::lock_guard held(device_of(xrcd->context).objects());
  if (object_of(xrcd).users > 0) return EBUSY;
  delete &object_of(xrcd);
  return 0;
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* wanted) {
  if (is_basic(context, *wanted)) return create_basic(context, *wanted);
  if (const int error = check(context, *wanted); error != 0) return fail<ibv_srq>(error);
  OpenDevice& device = device_of(context);
  XrcDomainObject& xrcd = object_of(wanted->xrcd);
  auto srq = make_object<SharedReceiveQueueObject>(&object_of(wanted->pd));
  if (srq == nullptr) return nullptr;
  const std::lock_guard held(device.objects());
  srq->shard = xrcd.domain->shard;
  srq->context = &device.shards()[srq->shard];
  const auto ring = ring_in(object_of(wanted->cq), device, srq->shard);
  if (!ring) return fail<ibv_srq>(ring.reason().error());
  Context::Session session(*srq->context);
  SrqAttributes attributes{.wr_max = wanted->attr.max_wr, .sge_max = wanted->attr.max_sge};
  auto created = session.engine().create_xrc_srq(object_of(wanted->pd).engine[srq->shard], attributes, srq.get(),
                                                 xrcd.domain->number, ring.value());
  if (!created) return fail<ibv_srq>(created.reason().error());
  srq->engine = created.value();
  srq->xrcd = &xrcd;
  ++xrcd.users;
  device.put_into(srq->shard);
  srq->granted = attributes;
  wanted->attr.max_wr = attributes.wr_max;
  wanted->attr.max_sge = attributes.sge_max;
  srq->core.srq.handle = device.next_handle();
  fill_core(srq->core.srq, context, *wanted);
  device.undestroyed().shared_receive_queues.insert(srq.get());
  return &srq.release()->core.srq;
}

int get_srq_num(ibv_srq* ibv, std::uint32_t* number) {
  const SharedReceiveQueueObject& srq = object_of(ibv);
  if (srq.xrcd == nullptr) return EOPNOTSUPP;
  Context::Session session(*srq.context);
  *number = session.engine().srq_number(srq.engine);
  return 0;
}

}  // extern "C"
}  // namespace brdma::provider::verbs
