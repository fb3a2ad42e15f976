// tests IBTA 9.7.5.1.3: a sequence NAK leaves once, until the right PSN comes (qp/gaps/sequence_nak.h).
#include <gtest/gtest.h>

#include "qp/gaps/sequence_nak.h"

namespace brdma::qp {
namespace {

struct Responding {
  Responding() { resources.reset(4); }
  [[nodiscard]] SequenceNak nak(bool bitmap = false) {
    return SequenceNak{{base_packet, resources, Psn{1000}, /*msn=*/7, bitmap}};
  }
  BasePacket base_packet;
  ResponderResources resources;
};

TEST(SequenceNak, NamesTheBase) {
  for (const bool bitmap : {true, false}) {
    Responding responder;
    responder.nak(bitmap).request();
    ASSERT_EQ(responder.resources.size(), 1u);
    const Response& nak = responder.resources.front();
    EXPECT_EQ(nak.kind, Response::Kind::kNak);
    EXPECT_EQ(nak.psn, Psn{1000});
    EXPECT_EQ(nak.msn, 7u);
    EXPECT_EQ(nak.syndrome, 0x60);
    EXPECT_EQ(nak.bitmap, bitmap);
  }
}

TEST(SequenceNak, LeavesOnceUntilTheBaseMoves) {
  Responding responder;
  responder.nak().request();
  responder.resources.pop();
  responder.nak().request();
  EXPECT_TRUE(responder.resources.empty());
  responder.base_packet.advance();
  responder.nak().request();
  EXPECT_EQ(responder.resources.size(), 1u);
}

TEST(SequenceNak, LeavesAgainForARetransmissionThatWasLost) {
  Responding responder;
  responder.nak().request();
  responder.resources.pop();
  responder.nak().request_again();
  EXPECT_EQ(responder.resources.size(), 1u);
}

TEST(SequenceNak, OneThatHasNotLeftSuffices) {
  Responding responder;
  responder.nak().request();
  EXPECT_TRUE(responder.nak().is_waiting(Psn{1000}));
  EXPECT_FALSE(responder.nak().is_waiting(Psn{1001}));
  responder.nak().request_again();
  EXPECT_EQ(responder.resources.size(), 1u);
}

}  // namespace
}  // namespace brdma::qp
