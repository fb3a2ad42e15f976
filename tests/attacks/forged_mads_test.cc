// Forged connection messages of each kind, without having seen any: 100,000 and more (BRDMA_FORGERIES) end no
// connection. The forger knows the addresses, the port, both queue pairs, and often one of the three numbers that name
// the connection.
#include <algorithm>

#include "base/random.h"
#include "support/cm/rdma_cms.h"
#include "support/forgeries.h"

namespace brdma::cm {
namespace {

constexpr std::uint32_t kQpnA = 0x111, kQpnB = 0x222;

class ForgedMads : public RdmaCms, public testing::WithParamInterface<std::uint16_t> {
 protected:
  void SetUp() override {
    listener(64);
    const IdNumber active = resolved();
    ASSERT_TRUE(a_.connect(active, parameters(kQpnA), {}, now_).ok());
    carry();
    const RdmaEvent request = fetch(b_, Kind::kConnectRequest);
    ASSERT_TRUE(b_.accept(request.id, 0xB1, parameters(kQpnB), {}, now_).ok());
    carry();
    fetch(a_, Kind::kConnectResponse);
    ASSERT_TRUE(a_.confirm(active).ok());
    carry();
    fetch(b_, Kind::kEstablished);
    id_a_ = active;
    id_b_ = request.id;
  }

  // Towards the side that `to_a` selects: one number right at most.
  wire::CmMad forged(bool to_a) {
    const std::uint64_t right = random_.below(4);
    const CommId ours = to_a ? request_.local_comm_id : reply_.local_comm_id;
    const CommId theirs = to_a ? reply_.local_comm_id : request_.local_comm_id;
    wire::CmMad mad;
    mad.transaction = random_.next();
    ids_.to = right == 0 ? ours : static_cast<CommId>(random_.next());
    ids_.from = right == 1 ? theirs : static_cast<CommId>(random_.next());
    if (random_.below(16) == 0) ids_.to = 0;
    if (random_.below(16) == 0) ids_.from = 0;
    qpn_ = to_a ? kQpnA : kQpnB;
    mad.message = message(to_a);
    return mad;
  }

  wire::CmMessage message(bool to_a) {
    const auto small = [this] { return static_cast<std::uint8_t>(random_.below(40)); };
    switch (GetParam()) {
      case wire::CmReq::kAttribute: {
        wire::CmReq req = request_;
        req.local_comm_id = ids_.from;
        req.qpn = to_a ? kQpnB : kQpnA;
        req.service_id ^= random_.below(2);
        req.path.local_gid = to_a ? kAddressB : kAddressA;
        req.path.remote_gid = to_a ? kAddressA : kAddressB;
        return req;
      }
      case wire::CmRep::kAttribute: {
        wire::CmRep rep = reply_;
        rep.local_comm_id = ids_.from;
        rep.remote_comm_id = ids_.to;
        return rep;
      }
      case wire::CmMra::kAttribute:
        return wire::CmMra{.local_comm_id = ids_.from,
                           .remote_comm_id = ids_.to,
                           .answered = static_cast<wire::CmAnswered>(random_.below(3)),
                           .service_timeout = static_cast<std::uint8_t>(random_.below(32))};
      case wire::CmRej::kAttribute:
        return wire::CmRej{.local_comm_id = ids_.from,
                           .remote_comm_id = ids_.to,
                           .answered = static_cast<wire::CmAnswered>(random_.below(3)),
                           .reason = small()};
      case wire::CmRtu::kAttribute:
        return wire::CmRtu{.local_comm_id = ids_.from, .remote_comm_id = ids_.to};
      case wire::CmDreq::kAttribute:
        return wire::CmDreq{.local_comm_id = ids_.from, .remote_comm_id = ids_.to, .remote_qpn = qpn_};
      case wire::CmDrep::kAttribute:
        return wire::CmDrep{.local_comm_id = ids_.from, .remote_comm_id = ids_.to};
      case wire::CmSidrReq::kAttribute:
        return wire::CmSidrReq{.request_id = ids_.from, .service_id = request_.service_id};
      case wire::CmSidrRep::kAttribute:
        return wire::CmSidrRep{
            .request_id = ids_.to, .status = small(), .qpn = qpn_, .service_id = request_.service_id};
      case wire::CmLap::kAttribute:
        return wire::CmLap{.local_comm_id = ids_.from, .remote_comm_id = ids_.to};
      default:
        return wire::CmApr{.local_comm_id = ids_.from, .remote_comm_id = ids_.to, .status = small()};
    }
  }

  void inject(bool to_a) {
    MadArray bytes;
    wire::emit_cm(forged(to_a), bytes);
    const Endpoints at_a{kAddressA, kAddressB}, at_b{kAddressB, kAddressA};
    (to_a ? a_ : b_).handle_mad(to_a ? at_a : at_b, bytes, now_);
    for (OutgoingMad out; a_.poll_send(out) || b_.poll_send(out);) {
    }
  }

  // Others' requests are theirs; these two connections must see no event.
  void expect_nothing_of(RdmaCm& side, IdNumber id) {
    while (const auto event = side.fetch_event(kChannel)) {
      ASSERT_NE(event->id, id) << static_cast<int>(event->kind);
      ASSERT_EQ(event->kind, Kind::kConnectRequest);
    }
  }

  struct {
    CommId from = 0, to = 0;
  } ids_;
  std::uint32_t qpn_ = 0;
  IdNumber id_a_{}, id_b_{};
  Random random_{11, "mads"};
};

TEST_P(ForgedMads, EndNoConnection) {
  const unsigned count = std::max(test::forgeries(), 100'000u);
  for (unsigned i = 0; i < count; ++i) inject(random_.below(2) == 0);
  expect_nothing_of(a_, id_a_);
  expect_nothing_of(b_, id_b_);
  ASSERT_TRUE(a_.disconnect(id_a_, now_).ok());
  carry();
  fetch(b_, Kind::kDisconnected);
  fetch(a_, Kind::kDisconnected);
}

std::string name_of(const testing::TestParamInfo<std::uint16_t>& each) {
  static constexpr const char* kNames[] = {"Req",  "Mra",     "Rej",     "Rep", "Rtu", "Dreq",
                                           "Drep", "SidrReq", "SidrRep", "Lap", "Apr"};
  return kNames[each.param - wire::CmReq::kAttribute];
}
INSTANTIATE_TEST_SUITE_P(Each, ForgedMads,
                         testing::Range<std::uint16_t>(wire::CmReq::kAttribute, wire::CmApr::kAttribute + 1), name_of);

}  // namespace
}  // namespace brdma::cm
