// Extended reliable connections: an initiator's requests name a shared receive queue, which takes their data; what is
// refused; loss; and that no other queue pair speaks this transport.
#include <gmock/gmock.h>

#include <cerrno>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

using testing::ElementsAre;

constexpr std::uint16_t kDomain = 7, kOtherDomain = 8;
constexpr std::uint8_t kTransport = 0xA0;

// Side 0 has an initiator, side 1 a target with two shared receive queues that complete in one completion queue.
class Xrc : public testing::Test {
 protected:
  explicit Xrc(PairOptions options = {}) : pair(without_connection(std::move(options))) {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(engine(i).destroy_qp(pair.side[i].qp).ok());
    QpCreate initiator{.pd = pair.side[0].pd,
                       .send_cq = pair.side[0].send_cq,
                       .xrc = XrcRole::kInitiator,
                       .capabilities = pair.options.capabilities};
    QpCreate target{.xrc = XrcRole::kTarget, .xrc_domain = kDomain, .capabilities = {}};
    pair.side[0].qp = engine(0).create_qp(initiator).value();
    pair.side[1].qp = engine(1).create_qp(target).value();
    for (int i = 0; i < 2; ++i) pair.connect(i);
    first = make_queue(kDomain, pair.side[1].pd);
    second = make_queue(kDomain, pair.side[1].pd);
  }
  static PairOptions without_connection(PairOptions options) {
    options.connect = false;
    return options;
  }
  Engine& engine(int i) { return *pair.side[i].engine; }
  SharedReceiveQueue* make_queue(std::uint16_t domain, ProtectionDomain* pd) {
    SrqAttributes attributes{.wr_max = 16, .sge_max = 2};
    return engine(1).create_xrc_srq(pd, attributes, nullptr, domain, pair.side[1].receive_cq).value();
  }
  Status receive_in(SharedReceiveQueue* queue, std::uint64_t offset, std::uint32_t length, std::uint64_t wr_id) {
    sge = {pair.side[1].at(offset), length, pair.side[1].key};
    return engine(1).post_receive(queue, {wr_id, {&sge, 1}}, pair.now);
  }
  SendRequest to(SharedReceiveQueue* queue, SendRequest request) {
    request.remote_qpn = engine(1).srq_number(queue);
    return request;
  }
  SendRequest send_to(SharedReceiveQueue* queue, std::uint64_t offset, std::uint32_t length, std::uint64_t wr_id) {
    return to(queue, pair.request(0, WorkOpcode::kSend, offset, length, wr_id));
  }
  CompletionStatus status_of_next(int i) {
    EXPECT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(i);
    EXPECT_EQ(done.size(), 1u);
    return done.empty() ? CompletionStatus::kSuccess : done[0].status;
  }

  TwoEngines pair;
  SharedReceiveQueue *first = nullptr, *second = nullptr;
  Sge sge;
};

TEST_F(Xrc, ASendFillsAReceiveOfTheQueueThatItNames) {
  pair.fill(0, 1);
  ASSERT_TRUE(receive_in(first, 0, 4096, 11).ok());
  ASSERT_TRUE(receive_in(second, 8192, 4096, 21).ok());
  ASSERT_TRUE(receive_in(second, 16384, 4096, 22).ok());
  ASSERT_TRUE(pair.post(0, send_to(second, 0, 3000, 1)).ok());
  ASSERT_TRUE(pair.post(0, send_to(first, 100, 200, 2)).ok());
  ASSERT_TRUE(pair.post(0, send_to(second, 4096, 0, 3)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 3u);
  std::vector<std::uint64_t> ids;
  for (const Completion& done : pair.poll_receives(1)) {
    EXPECT_EQ(done.status, CompletionStatus::kSuccess);
    EXPECT_EQ(done.qp_num, engine(1).qp_num(pair.side[1].qp));
    ids.push_back(done.wr_id);
  }
  EXPECT_THAT(ids, ElementsAre(21, 11, 22));
  EXPECT_TRUE(pair.same(0, 3000, 8192));
  EXPECT_TRUE(pair.same(100, 200, 0));
}

TEST_F(Xrc, AllPacketsAreOfItsTransportAndRequestsNameTheQueue) {
  ASSERT_TRUE(receive_in(second, 0, 4096, 1).ok());
  ASSERT_TRUE(pair.post(0, send_to(second, 0, 3000, 1)).ok());
  ASSERT_TRUE(pair.post(0, to(first, pair.write(0, 0, 100, 2))).ok());
  ASSERT_TRUE(pair.post(0, to(first, pair.request(0, WorkOpcode::kRdmaRead, 0, 100, 3))).ok());
  ASSERT_TRUE(pair.run_until_idle());
  std::size_t requests = 0;
  for (const Sent& sent : pair.wire) {
    EXPECT_EQ(sent.bth().opcode & 0xE0, kTransport);
    if (sent.from == 1) continue;
    ++requests;
    const bool of_send = wire::is_send(sent.packet().op);
    EXPECT_EQ(sent.packet().srq, engine(1).srq_number(of_send ? second : first));
  }
  EXPECT_EQ(requests, 5u);
}

TEST_F(Xrc, WritesWithImmediateReadsAndAtomicsAreServed) {
  pair.fill(0, 1);
  pair.fill(1, 2);
  ASSERT_TRUE(receive_in(first, 0, 0, 11).ok());
  SendRequest write = to(first, pair.request(0, WorkOpcode::kRdmaWriteWithImm, 0, 5000, 1));
  write.immediate_be = 0x1234;
  ASSERT_TRUE(pair.post(0, write).ok());
  ASSERT_TRUE(pair.post(0, to(first, pair.request(0, WorkOpcode::kRdmaRead, 65536, 9000, 2))).ok());
  SendRequest add = to(second, pair.request(0, WorkOpcode::kAtomicFetchAdd, 131072, 8, 3));
  add.compare_or_add = 5;
  std::uint64_t before = 0, after = 0;
  std::memcpy(&before, pair.side[1].memory.data() + 131072, 8);
  ASSERT_TRUE(pair.post(0, add).ok());
  ASSERT_TRUE(pair.run_until_idle());
  for (const Completion& done : pair.poll(0)) EXPECT_EQ(done.status, CompletionStatus::kSuccess);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].immediate_be, 0x1234u);
  EXPECT_EQ(received[0].wr_id, 11u);
  EXPECT_TRUE(pair.same(0, 5000));
  EXPECT_TRUE(pair.same(65536, 9000));
  std::memcpy(&after, pair.side[1].memory.data() + 131072, 8);
  EXPECT_EQ(after, before + 5);
}

TEST_F(Xrc, ANumberThatNoQueueOfTheDomainHasIsRefused) {
  SendRequest request = send_to(make_queue(kOtherDomain, pair.side[1].pd), 0, 10, 1);
  ASSERT_TRUE(pair.post(0, request).ok());
  EXPECT_EQ(status_of_next(0), CompletionStatus::kRemoteInvalidRequest);
  EXPECT_EQ(pair.state(1), QpState::kErr);
  EXPECT_TRUE(pair.poll_receives(1).empty());
}

TEST_F(Xrc, AQueueOfAnotherProtectionDomainThanTheFirstOneUsedIsRefused) {
  ProtectionDomain* const other = engine(1).alloc_pd();
  SharedReceiveQueue* const third = make_queue(kDomain, other);
  ASSERT_TRUE(receive_in(first, 0, 100, 1).ok());
  ASSERT_TRUE(pair.post(0, send_to(first, 0, 10, 1)).ok());
  EXPECT_EQ(status_of_next(0), CompletionStatus::kSuccess);
  ASSERT_TRUE(pair.post(0, send_to(third, 0, 10, 2)).ok());
  EXPECT_EQ(status_of_next(0), CompletionStatus::kRemoteInvalidRequest);
}

TEST_F(Xrc, KeysAreOfTheNamedQueuesProtectionDomain) {
  ProtectionDomain* const other = engine(1).alloc_pd();
  ASSERT_TRUE(pair.post(0, to(make_queue(kDomain, other), pair.write(0, 0, 100, 1))).ok());
  EXPECT_EQ(status_of_next(0), CompletionStatus::kRemoteAccessError);
}

TEST_F(Xrc, WithoutAReceiveItIsNotReadyUntilOneIsPosted) {
  ASSERT_TRUE(pair.post(0, send_to(second, 0, 3000, 1)).ok());
  pair.run_for(3_ms);
  EXPECT_TRUE(pair.poll(0).empty());
  EXPECT_GT(pair.side[1].count(Counter::kSentRnr), 0u);
  ASSERT_TRUE(receive_in(second, 0, 4096, 5).ok());
  EXPECT_EQ(status_of_next(0), CompletionStatus::kSuccess);
  EXPECT_EQ(pair.poll_receives(1).at(0).wr_id, 5u);
}

TEST_F(Xrc, LostPacketsAreRepaired) {
  pair.fill(0, 3);
  std::size_t packets = 0;
  pair.drop = [&](const Sent& sent) { return sent.copy == 1 && ++packets % 7 == 3; };
  for (std::uint64_t id = 0; id < 12; ++id) {
    SharedReceiveQueue* const queue = id % 3 == 0 ? second : first;
    ASSERT_TRUE(receive_in(queue, id * 16384, 16384, id).ok());
    ASSERT_TRUE(pair.post(0, send_to(queue, id * 16384, 10'000, id)).ok());
  }
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.poll(0).size(), 12u);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 12u);
  for (std::uint64_t id = 0; id < 12; ++id) {
    EXPECT_EQ(received[id].wr_id, id);
    EXPECT_TRUE(pair.same(id * 16384, 10'000)) << id;
  }
}

TEST_F(Xrc, ADestroyedQueueIsUnknownAndALaterOneMayBeOfAnotherDomain) {
  ASSERT_TRUE(receive_in(first, 0, 4096, 1).ok());
  pair.drop = [](const Sent& sent) { return sent.from == 0 && sent.psn() == 1001; };
  ASSERT_TRUE(pair.post(0, send_to(first, 0, 3000, 1)).ok());
  pair.run_for(100_us);  // in the midst of its message
  EXPECT_EQ(engine(1).destroy_cq(pair.side[1].receive_cq).error(), EBUSY);
  EXPECT_TRUE(engine(1).destroy_srq(first).ok());
  pair.drop = nullptr;
  EXPECT_EQ(status_of_next(0), CompletionStatus::kRemoteInvalidRequest);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(pair.modify(i, QpState::kReset, kQpAttrState).ok());
    pair.connect(i);
  }
  ASSERT_TRUE(receive_in(second, 0, 4096, 2).ok());
  ASSERT_TRUE(pair.post(0, send_to(second, 0, 3000, 2)).ok());
  EXPECT_EQ(status_of_next(0), CompletionStatus::kSuccess);
  EXPECT_EQ(pair.poll_receives(1).at(0).wr_id, 2u);
}

TEST_F(Xrc, EachHalfTakesOnlyItsOwnRequests) {
  EXPECT_EQ(pair.post(1, pair.write(1, 0, 10, 1)).error(), EINVAL);
  EXPECT_EQ(pair.post_receive(0, 0, 10, 1).error(), EINVAL);
  EXPECT_EQ(pair.post_receive(1, 0, 10, 1).error(), EINVAL);
  SendRequest beyond = pair.write(0, 0, 10, 1);
  beyond.remote_qpn = 1u << 24;
  EXPECT_EQ(pair.post(0, beyond).error(), EINVAL);
}

TEST_F(Xrc, EachHalfIsMadeOfItsOwnObjects) {
  auto& side = pair.side[0];
  const auto error = [&](QpCreate request) {
    const auto made = side.engine->create_qp(request);
    return made.ok() ? 0 : made.reason().error();
  };
  const QpCreate initiator{.pd = side.pd, .send_cq = side.send_cq, .xrc = XrcRole::kInitiator, .capabilities = {}};
  QpCreate changed = initiator;
  changed.receive_cq = side.receive_cq;
  EXPECT_EQ(error(changed), EINVAL);
  changed = initiator;
  changed.pd = nullptr;
  EXPECT_EQ(error(changed), EINVAL);
  changed = initiator;
  changed.type = QpType::kUc;
  EXPECT_EQ(error(changed), EINVAL);
  EXPECT_EQ(error({.pd = side.pd, .xrc = XrcRole::kTarget, .capabilities = {}}), EINVAL);
  EXPECT_EQ(error({.send_cq = side.send_cq, .xrc = XrcRole::kTarget, .capabilities = {}}), EINVAL);
}

// Requests to an initiator, answers to a target, packets of RC to either, of XRC to an RC queue pair.
TEST_F(Xrc, PacketsThatItsHalfDoesNotSpeakAreDropped) {
  const auto unknown = [&](int i) { return pair.side[i].count(DropReason::kUnknownOpcode); };
  const auto inject = [&](int to, wire::RcOp op, std::uint8_t transport) {
    wire::Packet packet;
    packet.op = op;
    packet.bth.opcode = static_cast<std::uint8_t>(static_cast<std::uint8_t>(op) | transport);
    packet.bth.dest_qpn = engine(to).qp_num(pair.side[to].qp);
    packet.bth.psn = Psn{pair.options.first_psn[1 - to]};
    packet.reth = {pair.side[to].at(0), pair.side[to].key, 0};
    pair.inject(to, pair.make(1 - to, packet));
  };
  inject(0, wire::RcOp::kWriteOnly, kTransport);
  EXPECT_EQ(unknown(0), 1u);
  inject(0, wire::RcOp::kAcknowledge, 0);
  EXPECT_EQ(unknown(0), 2u);
  inject(1, wire::RcOp::kAcknowledge, kTransport);
  EXPECT_EQ(unknown(1), 1u);
  inject(1, wire::RcOp::kWriteOnly, 0);
  EXPECT_EQ(unknown(1), 2u);
  TwoEngines plain;
  wire::Packet packet;
  packet.bth.opcode = kTransport | static_cast<std::uint8_t>(wire::RcOp::kWriteOnly);
  packet.bth.dest_qpn = plain.side[1].engine->qp_num(plain.side[1].qp);
  plain.inject(1, plain.make(0, packet));
  EXPECT_EQ(plain.side[1].count(DropReason::kUnknownOpcode), 1u);
}

}  // namespace
}  // namespace brdma::test
