// verbs/verbs.h - the operations that libibverbs calls on an open device, as C functions of its table. Each checks,
// translates and calls the engine; none decides anything about the protocol. Errors: functions that return int return 0
// or a positive errno value, those that return a pointer null with errno.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "abi/abi.h"
#include "abi/layout.h"
#include "base/result.h"
#include "bitmaprdma/types.h"

namespace brdma {
class CompletionQueue;
}

namespace brdma::provider {

class OpenDevice;
struct CompletionQueueObject;
struct ProtectionDomainObject;

// Limits of ours that the engine leaves open.
inline constexpr std::uint32_t kCompletionsMax = 1u << 20;  // entries of a completion queue: 48 MiB
// Completion vectors name interrupts, and there are none: each does the same. Programs spread their queues over them.
inline constexpr int kCompletionVectors = 8;
inline constexpr std::uint64_t kDeviceMemoryMax = 64 << 20;  // bytes, of all device memory of a context

void fill_operations(abi::OpTable& ops);

namespace verbs {

// Hints about pages and ordering, without effect where memory is copied: no page is ever pinned, all is on demand.
// Programs name them for regions, and some for queue pairs too.
inline constexpr int kAccessHints = IBV_ACCESS_HUGETLB | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_ON_DEMAND;

// As in the kernel (ib_access_writable): memory that may be bound to a window may be written through it.
inline constexpr int kWrites =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

// completion_queue.cc: create_cq with more parameters. `pd`: null, or the domain whose thread's shard its first ring is
// in, before it has queue pairs, and whose allocator gives its memory.
ibv_cq* make_completion_queue(ibv_context* context, int entries, ibv_comp_channel* channel, int vector,
                              const CqOptions& options, ProtectionDomainObject* pd);
// queue_pair.cc: create_qp with more parameters. `pd` is null, and the completion queues are, where `xrcd` is not: it
// is an XRC target.
ibv_qp* make_queue_pair(ibv_context* context, ibv_pd* pd, ibv_qp_init_attr& wanted, ibv_xrcd* xrcd);
// Likewise: its ring in that shard, made if there is none. SharedDevice::objects() held.
Result<CompletionQueue*, Status> ring_in(CompletionQueueObject& cq, OpenDevice& device, std::size_t shard);
// Sets the members of a request that binds a memory window.
void describe_binding(std::uint32_t rkey, const ibv_mw_bind_info& info, SendRequest& out);

extern "C" {
// query.cc
int query_device(ibv_context* context, ibv_device_attr* attributes);
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    std::size_t bytes);
int query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed);
int query_rt_values(ibv_context* context, ibv_values_ex* values);
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes);
void free_context(ibv_context* context);

// memory.cc
ibv_pd* alloc_pd(ibv_context* context);
int dealloc_pd(ibv_pd* pd);
ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, int access);
int dereg_mr(abi::VerbsMr* mr);
int rereg_mr(abi::VerbsMr* mr, int flags, ibv_pd* pd, void* address, std::size_t length, int access);
int advise_mr(ibv_pd* pd, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* list, std::uint32_t count);

// import.cc
ibv_pd* import_pd(ibv_context* context, std::uint32_t handle);
void unimport_pd(ibv_pd* pd);
ibv_mr* import_mr(ibv_pd* pd, std::uint32_t handle);
void unimport_mr(ibv_mr* mr);
ibv_dm* import_dm(ibv_context* context, std::uint32_t handle);
void unimport_dm(ibv_dm* dm);

// null_region.cc, device_memory.cc, dmabuf_region.cc
ibv_mr* alloc_null_mr(ibv_pd* pd);
ibv_dm* alloc_dm(ibv_context* context, ibv_alloc_dm_attr* attributes);
int free_dm(ibv_dm* dm);
ibv_mr* reg_dm_mr(ibv_pd* pd, ibv_dm* dm, std::uint64_t offset, std::size_t length, unsigned access);
int dm_export_dmabuf_fd(ibv_dm* dm);
ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd, int access);

// parent_domain.cc
ibv_td* alloc_td(ibv_context* context, ibv_td_init_attr* attributes);
int dealloc_td(ibv_td* td);
ibv_pd* alloc_parent_domain(ibv_context* context, ibv_parent_domain_init_attr* attributes);

// memory_window.cc
ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type);
int dealloc_mw(ibv_mw* mw);
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind);

// address_handle.cc
ibv_ah* create_ah(ibv_pd* pd, ibv_ah_attr* attributes);
int destroy_ah(ibv_ah* ah);

// multicast.cc
int attach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid);
int detach_mcast(ibv_qp* qp, const ibv_gid* group, std::uint16_t lid);

// completion_queue.cc
ibv_cq* create_cq(ibv_context* context, int entries, ibv_comp_channel* channel, int vector);
ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attributes);  // completion_queue_ex.cc
int destroy_cq(ibv_cq* cq);
int resize_cq(ibv_cq* cq, int entries);
int modify_cq(ibv_cq* cq, ibv_modify_cq_attr* attributes);
int poll_cq(ibv_cq* cq, int entries, ibv_wc* completions);
int req_notify_cq(ibv_cq* cq, int solicited_only);

// queue_pair.cc, modify_queue_pair.cc
ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attributes);
int destroy_qp(ibv_qp* qp);
int modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask);
int query_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* init_attributes);

// queue_pair_ex.cc
ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attributes);

// shared_receive_queue.cc
ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attributes);
int modify_srq(ibv_srq* srq, ibv_srq_attr* attributes, int mask);
int query_srq(ibv_srq* srq, ibv_srq_attr* attributes);
int destroy_srq(ibv_srq* srq);

// xrc.cc
ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attributes);
int close_xrcd(ibv_xrcd* xrcd);
ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attributes);
int get_srq_num(ibv_srq* srq, std::uint32_t* number);

// post.cc
int post_send(ibv_qp* qp, ibv_send_wr* requests, ibv_send_wr** bad_request);
int post_recv(ibv_qp* qp, ibv_recv_wr* requests, ibv_recv_wr** bad_request);
int post_srq_recv(ibv_srq* srq, ibv_recv_wr* requests, ibv_recv_wr** bad_request);
}
}  // namespace verbs
// The table: an operation's name and its function. Absent ones (flows) keep libibverbs' own error: EOPNOTSUPP.
template <class Visit>
void for_each_operation(const Visit& visit) {
  visit("advise_mr", &verbs::advise_mr);
  visit("alloc_dm", &verbs::alloc_dm);
  visit("alloc_mw", &verbs::alloc_mw);
  visit("alloc_null_mr", &verbs::alloc_null_mr);
  visit("alloc_parent_domain", &verbs::alloc_parent_domain);
  visit("alloc_pd", &verbs::alloc_pd);
  visit("alloc_td", &verbs::alloc_td);
  visit("attach_mcast", &verbs::attach_mcast);
  visit("bind_mw", &verbs::bind_mw);
  visit("close_xrcd", &verbs::close_xrcd);
  visit("create_ah", &verbs::create_ah);
  visit("create_cq", &verbs::create_cq);
  visit("create_cq_ex", &verbs::create_cq_ex);
  visit("create_qp", &verbs::create_qp);
  visit("create_qp_ex", &verbs::create_qp_ex);
  visit("create_srq", &verbs::create_srq);
  visit("create_srq_ex", &verbs::create_srq_ex);
  visit("dealloc_mw", &verbs::dealloc_mw);
  visit("dealloc_pd", &verbs::dealloc_pd);
  visit("dealloc_td", &verbs::dealloc_td);
  visit("dereg_mr", &verbs::dereg_mr);
  visit("destroy_ah", &verbs::destroy_ah);
  visit("destroy_cq", &verbs::destroy_cq);
  visit("destroy_qp", &verbs::destroy_qp);
  visit("destroy_srq", &verbs::destroy_srq);
  visit("detach_mcast", &verbs::detach_mcast);
  visit("dm_export_dmabuf_fd", &verbs::dm_export_dmabuf_fd);
  visit("free_context", &verbs::free_context);
  visit("free_dm", &verbs::free_dm);
  visit("get_srq_num", &verbs::get_srq_num);
  visit("import_dm", &verbs::import_dm);
  visit("import_mr", &verbs::import_mr);
  visit("import_pd", &verbs::import_pd);
  visit("modify_cq", &verbs::modify_cq);
  visit("modify_qp", &verbs::modify_qp);
  visit("modify_srq", &verbs::modify_srq);
  visit("open_xrcd", &verbs::open_xrcd);
  visit("poll_cq", &verbs::poll_cq);
  visit("post_recv", &verbs::post_recv);
  visit("post_send", &verbs::post_send);
  visit("post_srq_recv", &verbs::post_srq_recv);
  visit("query_device", &verbs::query_device);
  visit("query_device_ex", &verbs::query_device_ex);
  visit("query_port", &verbs::query_port);
  visit("query_port_speed", &verbs::query_port_speed);
  visit("query_qp", &verbs::query_qp);
  visit("query_rt_values", &verbs::query_rt_values);
  visit("query_srq", &verbs::query_srq);
  visit("reg_dm_mr", &verbs::reg_dm_mr);
  visit("reg_dmabuf_mr", &verbs::reg_dmabuf_mr);
  visit("reg_mr", &verbs::reg_mr);
  visit("req_notify_cq", &verbs::req_notify_cq);
  visit("rereg_mr", &verbs::rereg_mr);
  visit("resize_cq", &verbs::resize_cq);
  visit("unimport_dm", &verbs::unimport_dm);
  visit("unimport_mr", &verbs::unimport_mr);
  visit("unimport_pd", &verbs::unimport_pd);
}

}  // namespace brdma::provider
