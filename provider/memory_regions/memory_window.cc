// Memory windows. Type 1 is bound by a verb of its own, which posts a work request as for type 2.
#include <cerrno>
#include <memory>
#include <mutex>
#include <span>

#include "verbs/objects.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {

static_assert(static_cast<int>(WorkOpcode::kLocalInvalidate) == IBV_WR_LOCAL_INV);
static_assert(static_cast<int>(WorkOpcode::kBindMw) == IBV_WR_BIND_MW);
static_assert(static_cast<unsigned>(CompletionStatus::kWindowBindError) == IBV_WC_MW_BIND_ERR);
static_assert(static_cast<unsigned>(CompletionOpcode::kBindMw) == IBV_WC_BIND_MW);
static_assert(static_cast<unsigned>(CompletionOpcode::kLocalInvalidate) == IBV_WC_LOCAL_INV);

extern "C" {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return fail<ibv_mw>(EINVAL);
  OpenDevice& device = device_of(pd->context);
  if (device.shards().size() > 1) return fail<ibv_mw>(EOPNOTSUPP);  // a binding would have to reach all shards at once
  auto mw = std::make_unique<MemoryWindowObject>();
  const std::lock_guard held(device.objects());
  Context::Session session(device.shards().first());
  auto made = session.engine().alloc_window(object_of(pd).engine.front(), type == IBV_MW_TYPE_2);
  if (!made) return fail<ibv_mw>(made.reason().error());
  mw->engine = made.value();
  mw->core = {.context = pd->context,
              .pd = pd,
              .rkey = session.engine().info(mw->engine).rkey,
              .handle = device.next_handle(),
              .type = type};
  device.undestroyed().windows.insert(mw.get());
  return &mw.release()->core;
}

int dealloc_mw(ibv_mw* ibv) {
  MemoryWindowObject& mw = object_of(ibv);
  {
    OpenDevice& device = device_of(ibv->context);
    const std::lock_guard held(device.objects());
    Context::Session session(device.shards().first());
    if (const Status status = session.engine().dealloc_window(mw.engine); !status.ok()) return status.error();
    device.undestroyed().windows.erase(&mw);
  }
  delete &mw;
  return 0;
}

// The window's key changes even if the work request fails.
int bind_mw(ibv_qp* ibv, ibv_mw* mw, ibv_mw_bind* bind) {
  const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
  ibv_send_wr request{};
  request.wr_id = bind->wr_id;
  request.opcode = IBV_WR_BIND_MW;
  request.send_flags = bind->send_flags;
  request.bind_mw.mw = mw;
  request.bind_mw.rkey = rkey;
  request.bind_mw.bind_info = bind->bind_info;
  ibv_send_wr* bad = nullptr;
  const int error = post_send(ibv, &request, &bad);
  if (error == 0) mw->rkey = rkey;
  return error;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
