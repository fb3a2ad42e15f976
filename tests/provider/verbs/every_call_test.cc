// Calls of libibverbs and librdmacm that no other test makes: queries, and verbs that this device has not, on objects
// that it never made. docs/reference/verbs.md names the test of each call.
#include <endian.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

// An object as the library would have made it: only its context is read before the refusal.
template <class Object>
struct Invented {
  explicit Invented(ibv_context* context) { object.context = context; }
  Object object{};
};

TEST(Refused, FlowsAndTheirActions) {
  const auto context = open_first_device();
  Invented<ibv_flow> flow(context.get());
  Invented<ibv_flow_action> action(context.get());
  ibv_flow_action_esp_attr esp{};
  EXPECT_EQ(ibv_destroy_flow(&flow.object), EOPNOTSUPP);
  EXPECT_EQ(ibv_modify_flow_action_esp(&action.object, &esp), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_flow_action(&action.object), EOPNOTSUPP);
}

TEST(Refused, WorkQueuesAndTables) {
  const auto context = open_first_device();
  Invented<ibv_wq> queue(context.get());
  Invented<ibv_rwq_ind_table> table(context.get());
  ibv_wq_attr attributes{};
  EXPECT_EQ(ibv_modify_wq(&queue.object, &attributes), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_wq(&queue.object), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_rwq_ind_table(&table.object), EOPNOTSUPP);
}

TEST(Refused, Counters) {
  const auto context = open_first_device();
  Invented<ibv_counters> counters(context.get());
  std::array<std::uint64_t, 1> values{};
  EXPECT_EQ(ibv_destroy_counters(&counters.object), EOPNOTSUPP);
  EXPECT_EQ(ibv_read_counters(&counters.object, values.data(), 1, 0), EOPNOTSUPP);
  EXPECT_EQ(ibv_attach_counters_point_flow(&counters.object, nullptr, nullptr), EOPNOTSUPP);
}

TEST(Refused, OperationsOfASharedReceiveQueueWithTags) {
  const auto context = open_first_device();
  const Owned<ibv_pd> pd(ibv_alloc_pd(context.get()));
  ibv_srq_init_attr wanted{.srq_context = nullptr, .attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0}};
  ibv_srq* const queue = ibv_create_srq(pd.get(), &wanted);
  ASSERT_NE(queue, nullptr);
  ibv_ops_wr request{};
  ibv_ops_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_ops(queue, &request, &bad), EOPNOTSUPP);
  EXPECT_EQ(ibv_destroy_srq(queue), 0);
}

TEST(Queries, OfTheDeviceAndItsPort) {
  const auto context = open_first_device();
  EXPECT_EQ(ibv_get_device_index(context->device), -1) << "the kernel numbers its own devices only";
  EXPECT_EQ(ibv_get_pkey_index(context.get(), 1, htobe16(0xFFFF)), 0);
  errno = 0;
  EXPECT_EQ(ibv_get_pkey_index(context.get(), 1, htobe16(0x1234)), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_STRNE(ibv_get_device_name(context->device), "");
}

TEST(Queries, RdmaCmOpensTheSameDevices) {
  int count = 0;
  ibv_context** const contexts = rdma_get_devices(&count);
  ASSERT_NE(contexts, nullptr);
  EXPECT_GE(count, 1);
  EXPECT_NE(ibv_get_device_guid(contexts[0]->device), 0u);
  rdma_free_devices(contexts);
}

TEST(Queries, MacOfAnAddressOnTheSameHost) {
  const auto context = open_first_device();
  ibv_ah_attr to{};
  to.is_global = 1;
  to.port_num = 1;
  to.grh.sgid_index = usual_gid_index();
  ASSERT_EQ(ibv_query_gid(context.get(), 1, usual_gid_index(), &to.grh.dgid), 0);
  std::array<std::uint8_t, 6> mac{};
  std::uint16_t vlan = 0;
  EXPECT_EQ(ibv_resolve_eth_l2_from_gid(context.get(), &to, mac.data(), &vlan), 0);
}

}  // namespace
}  // namespace brdma::test
