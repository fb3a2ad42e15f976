#include "verbs.h"

namespace brdma::provider {

// What is not here (XRC, flows) keeps libibverbs' own answer: EOPNOTSUPP.
void fill_operations(abi::OpTable& ops) {
  ops.set("advise_mr", &verbs::advise_mr);
  ops.set("alloc_mw", &verbs::alloc_mw);
  ops.set("alloc_parent_domain", &verbs::alloc_parent_domain);
  ops.set("alloc_pd", &verbs::alloc_pd);
  ops.set("alloc_td", &verbs::alloc_td);
  ops.set("attach_mcast", &verbs::attach_mcast);
  ops.set("bind_mw", &verbs::bind_mw);
  ops.set("create_ah", &verbs::create_ah);
  ops.set("create_cq", &verbs::create_cq);
  ops.set("create_cq_ex", &verbs::create_cq_ex);
  ops.set("create_qp", &verbs::create_qp);
  ops.set("create_qp_ex", &verbs::create_qp_ex);
  ops.set("create_srq", &verbs::create_srq);
  ops.set("dealloc_mw", &verbs::dealloc_mw);
  ops.set("dealloc_pd", &verbs::dealloc_pd);
  ops.set("dealloc_td", &verbs::dealloc_td);
  ops.set("dereg_mr", &verbs::dereg_mr);
  ops.set("destroy_ah", &verbs::destroy_ah);
  ops.set("destroy_cq", &verbs::destroy_cq);
  ops.set("destroy_qp", &verbs::destroy_qp);
  ops.set("destroy_srq", &verbs::destroy_srq);
  ops.set("detach_mcast", &verbs::detach_mcast);
  ops.set("free_context", &verbs::free_context);
  ops.set("modify_qp", &verbs::modify_qp);
  ops.set("modify_srq", &verbs::modify_srq);
  ops.set("poll_cq", &verbs::poll_cq);
  ops.set("post_recv", &verbs::post_recv);
  ops.set("post_send", &verbs::post_send);
  ops.set("post_srq_recv", &verbs::post_srq_recv);
  ops.set("query_device", &verbs::query_device);
  ops.set("query_device_ex", &verbs::query_device_ex);
  ops.set("query_port", &verbs::query_port);
  ops.set("query_qp", &verbs::query_qp);
  ops.set("query_rt_values", &verbs::query_rt_values);
  ops.set("query_srq", &verbs::query_srq);
  ops.set("reg_mr", &verbs::reg_mr);
  ops.set("req_notify_cq", &verbs::req_notify_cq);
  ops.set("rereg_mr", &verbs::rereg_mr);
  ops.set("resize_cq", &verbs::resize_cq);
}

}  // namespace brdma::provider
