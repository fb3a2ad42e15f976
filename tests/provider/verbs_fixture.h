// tests/provider/verbs_fixture.h - a device of the preloaded library, opened through the real libibverbs, and pairs of
// connected queue pairs on it. All on one interface: packets go through the kernel and come back.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace brdma::test {

struct Deleter {
  void operator()(ibv_context* context) const { EXPECT_EQ(ibv_close_device(context), 0); }
  void operator()(ibv_pd* pd) const { EXPECT_EQ(ibv_dealloc_pd(pd), 0); }
  void operator()(ibv_mr* mr) const { EXPECT_EQ(ibv_dereg_mr(mr), 0); }
  void operator()(ibv_cq* cq) const { EXPECT_EQ(ibv_destroy_cq(cq), 0); }
  void operator()(ibv_qp* qp) const { EXPECT_EQ(ibv_destroy_qp(qp), 0); }
  void operator()(ibv_comp_channel* channel) const { EXPECT_EQ(ibv_destroy_comp_channel(channel), 0); }
};
template <class T>
using Owned = std::unique_ptr<T, Deleter>;

// Of the interface's IPv4 address.
std::uint8_t usual_gid_index();

// Opens the first device; null with a failure when there is none.
Owned<ibv_context> open_first_device();

// The parts of a queue pair's side, in the order of creation.
struct Side {
  Owned<ibv_context> context;
  Owned<ibv_pd> pd;
  Owned<ibv_comp_channel> channel;
  Owned<ibv_cq> cq;
  std::vector<std::uint8_t> memory;
  Owned<ibv_mr> mr;
  Owned<ibv_qp> qp;

  // Everything but a connection.
  static Side make(std::size_t memory_bytes = 1 << 16);
  [[nodiscard]] ibv_sge sge(std::size_t offset, std::uint32_t bytes) const;
};

ibv_qp_init_attr usual_queue_pair(ibv_cq* cq);
int to_init(ibv_qp* qp);
int to_rtr(ibv_qp* qp, ibv_qp* peer);
int to_rts(ibv_qp* qp);
void connect(Side& a, Side& b);

int post_send(Side& side, ibv_send_wr request);
int post_receive(Side& side, std::uint64_t wr_id, std::size_t offset, std::uint32_t bytes);
// The next completion; one with status IBV_WC_GENERAL_ERR and wr_id ~0 if none comes within seconds.
ibv_wc wait_completion(ibv_cq* cq);
// The next asynchronous event of the side's device, within seconds: of this type and about `element`. Acknowledges it.
void expect_event(Side& side, ibv_event_type type, const void* element);
// Signalled, of one SGE, which outlives it; a WRITE goes to the start of the peer's memory.
ibv_send_wr send_request(ibv_sge& sge);
ibv_send_wr write_request(ibv_sge& sge, const Side& peer);

}  // namespace brdma::test
