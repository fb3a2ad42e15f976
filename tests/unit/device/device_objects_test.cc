// Objects of an engine: limits, objects in use, numbers of queue pairs; deadlines and turns.
#include <gmock/gmock.h>

#include <array>
#include <cerrno>
#include <set>

#include "device/timers.h"
#include "qp/state/limits.h"
#include "support/two_engines.h"

namespace brdma::test {
namespace {

TEST(Objects, DestroyingWhatIsInUseIsBusy) {
  TwoEngines pair;
  auto& side = pair.side[0];
  EXPECT_EQ(side.engine->dealloc_pd(side.pd).error(), EBUSY);
  EXPECT_EQ(side.engine->destroy_cq(side.send_cq).error(), EBUSY);
  EXPECT_TRUE(side.engine->destroy_qp(side.qp).ok());
  EXPECT_TRUE(side.engine->destroy_cq(side.send_cq).ok());
  EXPECT_TRUE(side.engine->destroy_cq(side.receive_cq).ok());
  EXPECT_EQ(side.engine->dealloc_pd(side.pd).error(), EBUSY) << "a region is left";
  EXPECT_TRUE(side.engine->deregister_memory(side.region).ok());
  EXPECT_TRUE(side.engine->dealloc_pd(side.pd).ok());
  side.engine.reset();
}

TEST(Objects, WhatIsBeyondTheLimitsIsRefusedAndLessIsRoundedUp) {
  TwoEngines pair;
  auto& side = pair.side[0];
  const auto create = [&](QpCapabilities capabilities, QpType type = QpType::kRc) {
    QpCreate request{.type = type,
                     .pd = side.pd,
                     .send_cq = side.send_cq,
                     .receive_cq = side.receive_cq,
                     .capabilities = capabilities};
    const auto made = side.engine->create_qp(request);
    if (made.ok()) {
      EXPECT_GE(request.capabilities.send_wr_max, std::max(capabilities.send_wr_max, 1u));
      EXPECT_EQ(side.engine->qp_capabilities(made.value()).send_wr_max, request.capabilities.send_wr_max);
      EXPECT_TRUE(side.engine->destroy_qp(made.value()).ok());
    }
    return made.ok() ? 0 : made.reason().error();
  };
  EXPECT_EQ(create({}), 0);
  EXPECT_EQ(create({qp::kWorkRequestsMax, qp::kWorkRequestsMax, qp::kSgesMax, 4, 64}), 0);
  EXPECT_EQ(create({.send_wr_max = qp::kWorkRequestsMax + 1}), EINVAL);
  EXPECT_EQ(create({.receive_wr_max = qp::kWorkRequestsMax + 1}), EINVAL);
  EXPECT_EQ(create({.send_sge_max = qp::kSgesMax + 1}), EINVAL);
  EXPECT_EQ(create({.receive_sge_max = qp::kSgesMax + 1}), EINVAL);
  EXPECT_EQ(create({.inline_bytes_max = qp::kInlineBytesMax + 1}), EINVAL);
  EXPECT_EQ(create({}, QpType::kUd), 0);
  EXPECT_EQ(create({}, QpType::kUc), 0);
  EXPECT_EQ(side.engine->create_cq(0, nullptr).reason().error(), EINVAL);
  QpCreate nothing;
  EXPECT_EQ(side.engine->create_qp(nothing).reason().error(), EINVAL);
}

TEST(Objects, QpnsCarryTheSlotAreUniqueAndNotUsedAgainSoon) {
  EngineConfig config;
  config.slot = 5;
  Statistics statistics;
  Engine engine(config, statistics, nullptr);
  ProtectionDomain* pd = engine.alloc_pd();
  CompletionQueue* cq = engine.create_cq(16, nullptr).value();
  std::set<std::uint32_t> seen;
  std::vector<QueuePair*> alive;
  for (int i = 0; i < 2000; ++i) {
    QpCreate request{.pd = pd, .send_cq = cq, .receive_cq = cq, .capabilities = {}};
    QueuePair* qp = engine.create_qp(request).value();
    const std::uint32_t qpn = engine.qp_num(qp);
    EXPECT_EQ(qpn & 0xFF, 5u);
    EXPECT_LT(qpn, 1u << 24);
    EXPECT_GT(qpn >> 8, 0u);
    EXPECT_TRUE(seen.insert(qpn).second) << qpn;
    if (i % 3 == 0) {
      EXPECT_TRUE(engine.destroy_qp(qp).ok());
    } else {
      alive.push_back(qp);
    }
  }
  for (QueuePair* qp : alive) EXPECT_TRUE(engine.destroy_qp(qp).ok());
}

TEST(Objects, CompletionsOfADestroyedQueuePairAreGone) {
  TwoEngines pair;
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_TRUE(pair.side[0].engine->destroy_qp(pair.side[0].qp).ok());
  EXPECT_TRUE(pair.poll(0).empty());
}

// A program ends when it has all its completions; its peer must get an acknowledgement even if one was lost.
TEST(Objects, AnEndingQueuePairRepeatsItsFinalAck) {
  TwoEngines pair;
  int acknowledgements = 0;
  pair.drop = [&](const Sent& sent) {
    return sent.from == 1 && sent.control(wire::Control::kBitmapAck) && ++acknowledgements <= 4;
  };
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
  pair.run_for(20_us);
  EXPECT_EQ(acknowledgements, 1);
  pair.side[1].engine->send_final_acks();
  pair.round();
  EXPECT_EQ(acknowledgements, 5);
  ASSERT_TRUE(pair.side[1].engine->destroy_qp(pair.side[1].qp).ok());
  pair.run_for(20_us);
  const auto completions = pair.poll(0);
  ASSERT_EQ(completions.size(), 1u);
  EXPECT_EQ(completions[0].status, CompletionStatus::kSuccess);
}

// A reply acknowledges its request, if only it arrives: the completion of a send is there before that of its reply.
TEST(Objects, AReplyRepeatsAnAcknowledgementThatWasLost) {
  for (const unsigned replies_lost : {0u, 1u}) {
    TwoEngines pair;
    pair.drop = [&](const Sent& sent) {
      return sent.from == 1 && (sent.control(wire::Control::kBitmapAck) || (sent.data() && sent.copy <= replies_lost));
    };
    ASSERT_TRUE(pair.post_receive(0, 0, 100, 7).ok());
    ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
    pair.run_for(20_us);
    EXPECT_TRUE(pair.poll(0).empty());
    ASSERT_TRUE(pair.post(1, pair.request(1, WorkOpcode::kSend, 0, 100, 2)).ok());
    for (int i = 0; i < 10'000 && pair.poll_receives(0).empty(); ++i) {
      EXPECT_TRUE(pair.poll(0).empty());
      pair.run_for(1_us);
    }
    EXPECT_EQ(pair.poll(0).size(), 1u) << replies_lost;
  }
}

TEST(Objects, AQueuePairWithoutReceivedPacketsEndsSilently) {
  TwoEngines pair;
  pair.side[0].engine->send_final_acks();
  pair.round();
  EXPECT_TRUE(pair.wire.empty());
}

TEST(Objects, NotificationsComeOnceAnArm) {
  TwoEngines pair;
  auto& side = pair.side[0];
  side.engine->request_notify(side.send_cq, false);
  side.notifications.clear();
  for (std::uint64_t n = 0; n < 3; ++n) ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, n)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  ASSERT_EQ(side.notifications.size(), 1u);
  EXPECT_EQ(side.notifications[0].kind, Notification::Kind::kCompletion);
  EXPECT_EQ(side.notifications[0].user, &side.send_cq);
}

// A completion between the program's last poll and its arming is a reason to wake it.
TEST(Objects, ArmingWithOneUnpolledNotifiesAtOnce) {
  TwoEngines pair;
  auto& side = pair.side[0];
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  side.notifications.clear();
  side.engine->request_notify(side.send_cq, /*solicited_only=*/true);
  EXPECT_FALSE(side.engine->poll_notification().has_value()) << "it was not solicited";
  side.engine->request_notify(side.send_cq, false);
  const auto notification = side.engine->poll_notification();
  ASSERT_TRUE(notification.has_value());
  EXPECT_EQ(notification->kind, Notification::Kind::kCompletion);
  EXPECT_EQ(notification->user, &side.send_cq);
  EXPECT_FALSE(side.engine->poll_notification().has_value());
  // A program that arms when it is woken, and polls then, is not woken again for the same completion.
  side.engine->request_notify(side.send_cq, false);
  EXPECT_FALSE(side.engine->poll_notification().has_value());
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 2)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(side.notifications.size(), 1u);
}

// Completions stay solicited until they are polled, whatever is around them or removed.
TEST(Objects, ArmingForSolicitedOnesKnowsWhichAreUnpolled) {
  CompletionQueue cq{8, nullptr};
  const auto push = [&cq](std::uint32_t qpn, bool solicited) {
    Completion completion{};
    completion.qp_num = qpn;
    EXPECT_EQ(cq.push(completion, solicited, Instant{}), CompletionQueue::Push::kQuiet);
  };
  const auto poll = [&cq] {
    Completion one;
    EXPECT_EQ(cq.poll({&one, 1}), 1u);
  };
  const auto fires = [&cq](bool solicited_only = true) {
    const bool fired = cq.arm(solicited_only);
    cq.disarm();
    return fired;
  };
  EXPECT_FALSE(fires());
  push(1, false);
  EXPECT_FALSE(fires());
  push(2, true);
  push(1, false);
  poll();
  EXPECT_TRUE(fires());
  EXPECT_FALSE(fires()) << "that was said";
  push(3, true);
  cq.purge(2);
  EXPECT_TRUE(fires());
  push(4, true);
  push(5, false);
  cq.purge(4);
  EXPECT_FALSE(fires());
  EXPECT_TRUE(fires(/*solicited_only=*/false)) << "5";
  for (int i = 0; i < 3; ++i) poll();
  EXPECT_FALSE(fires(/*solicited_only=*/false)) << "it is empty";
  push(6, false);
  EXPECT_TRUE(fires(/*solicited_only=*/false));
}

TEST(Objects, AnArmThatIsTakenBackNotifiesNobody) {
  TwoEngines pair;
  auto& side = pair.side[0];
  side.engine->request_notify(side.send_cq, false);
  side.engine->cancel_notify(side.send_cq);
  side.notifications.clear();
  ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, 1)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_TRUE(side.notifications.empty());
}

// As destroying them would return.
TEST(Objects, SayWhetherTheyAreInUse) {
  TwoEngines pair;
  auto& side = pair.side[0];
  EXPECT_TRUE(side.engine->in_use(side.send_cq));
  EXPECT_EQ(side.engine->destroy_cq(side.send_cq).error(), EBUSY);
  ProtectionDomain* const pd = side.engine->alloc_pd();
  CompletionQueue* const cq = side.engine->create_cq(4, nullptr).value();
  EXPECT_FALSE(side.engine->in_use(cq));
  EXPECT_FALSE(side.engine->in_use(pd));
  MemoryRegion* const region = side.engine->register_memory(pd, 0, 16, 0, kAccessLocalWrite).value();
  EXPECT_TRUE(side.engine->in_use(pd));
  EXPECT_EQ(side.engine->dealloc_pd(pd).error(), EBUSY);
  EXPECT_TRUE(side.engine->deregister_memory(region).ok());
  EXPECT_TRUE(side.engine->dealloc_pd(pd).ok());
  EXPECT_TRUE(side.engine->destroy_cq(cq).ok());
}

TEST(Objects, AnOverrunCompletionQueueIsReportedAndEndsTheQueuePair) {
  PairOptions options;
  options.cq_entries = 2;
  TwoEngines pair{options};
  pair.side[0].notifications.clear();
  for (std::uint64_t n = 0; n < 5; ++n) ASSERT_TRUE(pair.post(0, pair.write(0, 0, 100, n)).ok());
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(pair.state(0), QpState::kErr);
  EXPECT_EQ(pair.poll(0).size(), 2u) << "nothing was overwritten";
  std::size_t reported = 0;
  for (const Notification& n : pair.side[0].notifications) reported += n.kind == Notification::Kind::kCqError ? 1 : 0;
  EXPECT_EQ(reported, 1u);
}

TEST(Objects, AnOverrunCompletionQueueTakesNothingMore) {
  CompletionQueue cq{2, nullptr};
  Completion completion;
  const auto push = [&](std::uint64_t number) {
    completion.wr_id = number;
    return cq.push(completion, false, Instant{});
  };
  EXPECT_EQ(push(1), CompletionQueue::Push::kQuiet);
  EXPECT_EQ(push(2), CompletionQueue::Push::kQuiet);
  EXPECT_EQ(push(3), CompletionQueue::Push::kOverrun);
  std::array<Completion, 4> out;
  ASSERT_EQ(cq.poll(std::span{out}.first(1)), 1u);
  EXPECT_EQ(push(4), CompletionQueue::Push::kQuiet) << "there is room, but 3 is missing";
  ASSERT_EQ(cq.poll(out), 1u);
  EXPECT_EQ(out[0].wr_id, 2u);
}

TEST(Objects, ACompletionQueueThatIgnoresOverrunsKeepsTheNewest) {
  CompletionQueue cq{2, nullptr, {.stamped = true, .ignore_overrun = true}};
  Completion completion;
  for (std::uint64_t number = 1; number <= 5; ++number) {
    EXPECT_EQ(cq.overwrites(), number > 2);
    completion.wr_id = number;
    completion.qp_num = static_cast<std::uint32_t>(number);
    cq.push(completion, false, Instant::from_ns(static_cast<std::int64_t>(number) * 100));
  }
  ASSERT_TRUE(cq.resize(3).ok());
  completion.wr_id = completion.qp_num = 6;
  cq.push(completion, false, Instant::from_ns(600));
  cq.purge(5);
  std::array<Completion, 4> out;
  std::array<Instant, 4> times;
  ASSERT_EQ(cq.poll(out, times), 2u);
  EXPECT_EQ(out[0].wr_id, 4u);
  EXPECT_EQ(times[0].ns(), 400);
  EXPECT_EQ(out[1].wr_id, 6u);
  EXPECT_EQ(times[1].ns(), 600);
}

TEST(Objects, AQueuePairInErrorHasOutputWhileItsNakWaits) {
  TwoEngines pair;
  pair.paused[1] = true;  // packets to it are injected below, and nothing leaves
  auto request = pair.write(0, 0, 100, 1);
  request.rkey ^= 1;
  ASSERT_TRUE(pair.post(0, request).ok());
  pair.round();
  auto& side = pair.side[1];
  EXPECT_EQ(side.qp->interest(pair.now), TransmitInterest::kNone);
  const Datagram datagram{.source = pair.side[0].address,
                          .destination = side.address,
                          .source_port = pair.wire.back().source_port,
                          .ip_id_known = true,
                          .bytes = pair.wire.back().bytes};
  side.engine->handle_datagram(datagram, pair.now);
  ASSERT_EQ(pair.state(1), QpState::kErr);
  EXPECT_EQ(side.qp->interest(pair.now), TransmitInterest::kForced);
  pair.paused[1] = false;
  ASSERT_TRUE(pair.run_until_idle());
  EXPECT_EQ(side.qp->interest(pair.now), TransmitInterest::kNone);
  EXPECT_EQ(pair.poll(0).at(0).status, CompletionStatus::kRemoteAccessError);
}

TEST(Objects, QueuePairsSendInTurn) {
  EngineConfig config;
  config.segments_max = 4;
  config.recovery.mode = RecoveryMode::kStandard;
  Statistics statistics;
  Engine engine(config, statistics, nullptr);
  ProtectionDomain* pd = engine.alloc_pd();
  CompletionQueue* cq = engine.create_cq(16, nullptr).value();
  std::vector<std::byte> memory(1 << 16);
  const auto at = reinterpret_cast<std::uint64_t>(memory.data());
  MemoryRegion* region = engine.register_memory(pd, at, memory.size(), at, kAccessLocalWrite).value();
  const Instant now = Instant::from_ns(1000);
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < 3; ++i) {
    QpCreate request{.pd = pd, .send_cq = cq, .receive_cq = cq, .capabilities = {}};
    QueuePair* qp = engine.create_qp(request).value();
    QpAttributes a;
    a.local_address = IpAddress::v4(10, 0, 0, 1);
    a.peer_address = IpAddress::v4(10, 0, 0, 2);
    a.destination_qpn = i + 1;
    for (const auto& [state, mask] :
         {std::pair{QpState::kInit, TwoEngines::kToInit}, std::pair{QpState::kRtr, TwoEngines::kToRtr},
          std::pair{QpState::kRts, TwoEngines::kToRts}}) {
      a.state = state;
      ASSERT_TRUE(engine.modify_qp(qp, a, mask, now).ok());
    }
    const Sge sge{at, 64 * 1024, engine.info(region).lkey};
    ASSERT_TRUE(engine.post_send(qp, SendRequest{.sges = {&sge, 1}, .opcode = WorkOpcode::kSend}, now).ok());
  }
  auto buffer = std::make_unique<TransmitBuffer>();
  Transmit out;
  while (engine.poll_transmit(*buffer, out, now)) {
    const std::uint32_t to = load_be24(static_cast<const std::byte*>(out.slices[0].data) + 5);
    if (order.empty() || order.back() != to) order.push_back(to);
  }
  // A turn is the largest possible batch, of packets four times as long: 16 packets and the batch's overhead.
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3));
}

// Compared with the naive method: every deadline in a list, the smallest taken.
TEST(Timers, TakeTheEarliestInOrder) {
  TwoEngines pair;  // gives an environment to queue pairs that only carry a place in the heap
  auto& side = pair.side[0];
  std::vector<QueuePair*> qps;
  for (int i = 0; i < 40; ++i) {
    QpCreate request{.pd = side.pd, .send_cq = side.send_cq, .receive_cq = side.receive_cq, .capabilities = {}};
    qps.push_back(side.engine->create_qp(request).value());
  }
  device::Timers timers;
  std::vector<std::optional<std::int64_t>> model(qps.size());
  Random random(42);
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t i = random.below(qps.size());
    if (random.below(4) != 0) {
      model[i] = static_cast<std::int64_t>(random.below(1000));
      timers.set(qps[i], Instant::from_ns(*model[i]));
    } else if (random.below(2) == 0) {
      model[i].reset();
      timers.set(qps[i], std::nullopt);
    } else {
      std::optional<std::int64_t> first;
      for (const auto& each : model) {
        if (each && (!first || *each < *first)) first = each;
      }
      ASSERT_EQ(timers.earliest().has_value(), first.has_value());
      if (!first) continue;
      ASSERT_EQ(timers.earliest()->ns(), *first);
      EXPECT_EQ(timers.take_due(Instant::from_ns(*first - 1)), nullptr);
      QueuePair* const taken = timers.take_due(Instant::from_ns(*first));
      const auto at = std::find(qps.begin(), qps.end(), taken) - qps.begin();
      ASSERT_EQ(model[static_cast<std::size_t>(at)], first);
      model[static_cast<std::size_t>(at)].reset();
    }
  }
  for (QueuePair* qp : qps) timers.set(qp, std::nullopt);
}

}  // namespace
}  // namespace brdma::test
