// Port spaces IB and IPoIB by the real librdmacm.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "provider/rdma_cm/rdma_cm_ids.h"

namespace brdma::test {
namespace {

// RDMA_PS_IB with a queue pair type that its name does not imply: by rdma_getaddrinfo() and rdma_create_ep(), which
// alone can set it.
struct Endpoint {
  Endpoint(ibv_qp_type type, const char* port, int flags) {
    rdma_addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_port_space = RDMA_PS_IB;
    hints.ai_qp_type = type;
    rdma_addrinfo* found = nullptr;
    EXPECT_EQ(rdma_getaddrinfo(test_address4(), port, &hints, &found), 0) << std::strerror(errno);
    ibv_qp_init_attr attributes{};
    attributes.qp_type = type;
    attributes.cap = {4, 4, 1, 1, 0};
    attributes.sq_sig_all = 1;
    EXPECT_EQ(rdma_create_ep(&id, found, nullptr, &attributes), 0) << std::strerror(errno);
    rdma_freeaddrinfo(found);
  }
  ~Endpoint() {
    if (id != nullptr) rdma_destroy_ep(id);
  }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  rdma_cm_id* id = nullptr;
};

void expect_one_message(rdma_cm_id* from, rdma_cm_id* to) {
  std::array<char, 16> sent{"across"}, received{};
  ibv_mr* const source = rdma_reg_msgs(from, sent.data(), sent.size());
  ibv_mr* const target = rdma_reg_msgs(to, received.data(), received.size());
  ASSERT_EQ(rdma_post_recv(to, nullptr, received.data(), received.size(), target), 0);
  ASSERT_EQ(rdma_post_send(from, nullptr, sent.data(), sent.size(), source, 0), 0);
  ibv_wc done{};
  EXPECT_EQ(rdma_get_recv_comp(to, &done), 1);
  EXPECT_EQ(done.status, IBV_WC_SUCCESS);
  EXPECT_EQ(received, sent);
  rdma_dereg_mr(source);
  rdma_dereg_mr(target);
}

class ConnectedTypes : public testing::TestWithParam<ibv_qp_type> {};

TEST_P(ConnectedTypes, ConnectInThePortSpaceOfIb) {
  Endpoint listener(GetParam(), "7180", RAI_PASSIVE), active(GetParam(), "7180", 0);
  ASSERT_NE(listener.id, nullptr);
  ASSERT_NE(active.id, nullptr);
  ASSERT_EQ(rdma_listen(listener.id, 1), 0) << std::strerror(errno);
  rdma_cm_id* child = nullptr;
  std::thread server([&] {
    ASSERT_EQ(rdma_get_request(listener.id, &child), 0) << std::strerror(errno);
    EXPECT_EQ(child->qp->qp_type, GetParam());
    EXPECT_EQ(rdma_accept(child, nullptr), 0) << std::strerror(errno);
  });
  EXPECT_EQ(rdma_connect(active.id, nullptr), 0) << std::strerror(errno);
  server.join();
  ASSERT_NE(child, nullptr);
  expect_one_message(active.id, child);
  EXPECT_EQ(rdma_disconnect(active.id), 0);
  rdma_destroy_ep(child);
}

INSTANTIATE_TEST_SUITE_P(RdmaCmPortSpaces, ConnectedTypes, testing::Values(IBV_QPT_RC, IBV_QPT_UC),
                         [](const auto& info) { return std::string(info.param == IBV_QPT_RC ? "Rc" : "Uc"); });

// A request for another queue pair type than the listener's is refused: transports do not mix.
TEST(RdmaCmPortSpaces, AnotherTransportIsRefused) {
  Endpoint listener(IBV_QPT_UC, "7181", RAI_PASSIVE), active(IBV_QPT_RC, "7181", 0);
  ASSERT_EQ(rdma_listen(listener.id, 1), 0);
  EXPECT_EQ(rdma_connect(active.id, nullptr), -1);
  EXPECT_EQ(errno, ECONNREFUSED);
  EXPECT_EQ(active.id->event->status, 28) << "consumer defined, as in the kernel";
}

TEST(RdmaCmPortSpaces, DatagramsInThePortSpaceOfIb) {
  Endpoint listener(IBV_QPT_UD, "7182", RAI_PASSIVE), active(IBV_QPT_UD, "7182", 0);
  ASSERT_NE(listener.id, nullptr);
  ASSERT_EQ(rdma_listen(listener.id, 1), 0) << std::strerror(errno);
  rdma_cm_id* child = nullptr;
  std::thread server([&] {
    ASSERT_EQ(rdma_get_request(listener.id, &child), 0) << std::strerror(errno);
    EXPECT_EQ(rdma_accept(child, nullptr), 0) << std::strerror(errno);
  });
  ASSERT_EQ(rdma_connect(active.id, nullptr), 0) << std::strerror(errno);
  server.join();
  const rdma_ud_param& parameters = active.id->event->param.ud;
  EXPECT_EQ(parameters.qp_num, child->qp->qp_num);
  EXPECT_EQ(parameters.qkey, 0x0123'4567u);
  rdma_destroy_ep(child);
}

// A port of TCP is not one of IB.
TEST(RdmaCmPortSpaces, PortsOfDifferentSpacesStandBesideEachOther) {
  Channel channel;
  sockaddr_in address = loopback(7183);
  std::vector<std::unique_ptr<Id>> ids;
  for (const rdma_port_space space : {RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB}) {
    ids.push_back(std::make_unique<Id>(channel, space));
    EXPECT_EQ(rdma_bind_addr(ids.back()->id, reinterpret_cast<sockaddr*>(&address)), 0) << space;
    Id second(channel, space);
    EXPECT_EQ(rdma_bind_addr(second.id, reinterpret_cast<sockaddr*>(&address)), -1) << space;
    EXPECT_EQ(errno, EADDRINUSE);
  }
}

// Ethernet has no IPoIB. As in the kernel a program may listen there on every address, but nobody connects.
TEST(RdmaCmPortSpaces, IpoibHasNoAddressHere) {
  Channel channel;
  Id bound(channel, RDMA_PS_IPOIB), listening(channel, RDMA_PS_IPOIB), asking(channel, RDMA_PS_IPOIB);
  sockaddr_in address = loopback(7184);
  EXPECT_EQ(rdma_bind_addr(bound.id, reinterpret_cast<sockaddr*>(&address)), -1);
  EXPECT_EQ(errno, EINVAL);
  ASSERT_EQ(rdma_resolve_addr(asking.id, nullptr, reinterpret_cast<sockaddr*>(&address), 1000), 0);
  int status = 0;
  EXPECT_EQ(next_event(channel, nullptr, &status), RDMA_CM_EVENT_ADDR_ERROR);
  EXPECT_EQ(status, -EINVAL);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  EXPECT_EQ(rdma_bind_addr(listening.id, reinterpret_cast<sockaddr*>(&address)), 0) << std::strerror(errno);
  EXPECT_EQ(rdma_listen(listening.id, 1), 0) << std::strerror(errno);
}

// InfiniBand's own addresses: refused by librdmacm, because the device reports none; the identifier does not change.
TEST(RdmaCmPortSpaces, AddressesOfInfiniBandAreRefused) {
  Channel channel;
  Id id(channel, RDMA_PS_IB);
  std::array<std::byte, 48> address{};  // struct sockaddr_ib
  constexpr sa_family_t kAfIb = 27;
  std::memcpy(address.data(), &kAfIb, sizeof kAfIb);
  auto* const name = reinterpret_cast<sockaddr*>(address.data());
  EXPECT_EQ(rdma_bind_addr(id.id, name), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_resolve_addr(id.id, nullptr, name, 1000), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_NE(listen_somewhere(id.id), 0);
}

}  // namespace
}  // namespace brdma::test
