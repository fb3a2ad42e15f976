// RDMA-CM of extended reliable connections: what REQ and REP say of them (IBTA annex A14), attributes of both halves,
// and that RC and XRC do not meet.
#include "support/cm/rdma_cms.h"

namespace brdma::cm {
namespace {

constexpr std::uint16_t kPort = 7174;

class XrcCms : public RdmaCms {
 protected:
  IdNumber make(RdmaCm& side, std::uint64_t user, XrcRole role) {
    return side.create(kChannel, user, wire::PortSpace::kIb, QpType::kRc, role).value();
  }
  IdNumber listening(XrcRole role) {
    const IdNumber id = make(b_, 0xB0, role);
    EXPECT_TRUE(b_.bind(id, {kAny, kPort}).ok());
    EXPECT_TRUE(b_.listen(id, 0).ok());
    return id;
  }
  IdNumber asking(XrcRole role) {
    const IdNumber id = make(a_, 0xA0, role);
    EXPECT_TRUE(a_.resolve_address(id, std::nullopt, {kAddressB, kPort}).ok());
    fetch(a_, Kind::kAddressResolved);
    EXPECT_TRUE(a_.resolve_route(id).ok());
    fetch(a_, Kind::kRouteResolved);
    EXPECT_TRUE(a_.connect(id, parameters(0x111), {}, now_).ok());
    carry();
    return id;
  }
};

TEST_F(XrcCms, TheTargetsNumberIsTheEecnOfTheReply) {
  listening(XrcRole::kTarget);
  const IdNumber active = asking(XrcRole::kInitiator);
  EXPECT_EQ(request_.transport, 3);
  EXPECT_EQ(request_.extended_transport, 1);
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  ASSERT_TRUE(b_.accept(request.id, 0xB1, parameters(0x222), {}, now_).ok());
  carry();
  EXPECT_EQ(reply_.qpn, 0u);
  EXPECT_EQ(reply_.eecn, 0x222u);
  EXPECT_TRUE(reply_.srq);
  EXPECT_EQ(reply_.initiator_depth, 0);
  EXPECT_EQ(reply_.responder_resources, 3);
  EXPECT_EQ(fetch(a_, Kind::kConnectResponse).parameters.qpn, 0x222u);
  EXPECT_EQ(a_.queue_pair_setting(active, QpState::kRtr).value().attributes.destination_qpn, 0x222u);
  EXPECT_EQ(b_.queue_pair_setting(request.id, QpState::kRtr).value().attributes.destination_qpn, 0x111u);
}

TEST_F(XrcCms, EachHalfHasTheAttributesThatItNeeds) {
  listening(XrcRole::kTarget);
  const IdNumber active = asking(XrcRole::kInitiator);
  const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
  ASSERT_TRUE(b_.accept(request.id, 0xB1, parameters(0x222), {}, now_).ok());
  carry();
  const auto mask = [](RdmaCm& side, IdNumber id, QpState state) {
    return side.queue_pair_setting(id, state).value().mask;
  };
  constexpr std::uint32_t kReceives = kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer,
                          kSends = kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrMaxRdAtomic;
  EXPECT_EQ(mask(a_, active, QpState::kRtr) & kReceives, 0u);
  EXPECT_EQ(mask(a_, active, QpState::kRts) & kSends, kSends);
  EXPECT_EQ(mask(b_, request.id, QpState::kRtr) & kReceives, kReceives);
  EXPECT_EQ(mask(b_, request.id, QpState::kRts) & kSends, 0u);
  EXPECT_NE(mask(b_, request.id, QpState::kRts) & kQpAttrTimeout, 0u);
}

TEST_F(XrcCms, RcAndXrcDoNotMeet) {
  listening(XrcRole::kNone);
  asking(XrcRole::kInitiator);
  EXPECT_FALSE(b_.fetch_event(kChannel).has_value());
  fetch(a_, Kind::kRejected);
  const IdNumber other = make(b_, 1, XrcRole::kTarget);
  ASSERT_TRUE(b_.bind(other, {kAddressB, kPort + 1}).ok());
  ASSERT_TRUE(b_.listen(other, 0).ok());
}

}  // namespace
}  // namespace brdma::cm
