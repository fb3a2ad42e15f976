// Memory windows: the access they grant, to whom and when, and their invalidation. Side 1 binds, side 0 accesses.
#include <gmock/gmock.h>

#include <cerrno>

#include "support/two_engines.h"

namespace brdma::test {
namespace {

class Windows : public testing::TestWithParam<RecoveryMode> {
 protected:
  static constexpr std::uint64_t kAt = 8192, kLength = 4096;
  static constexpr std::uint32_t kRemote = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic;

  Windows() : pair(options()) {
    TwoEngines::Side& me = pair.side[1];
    region =
        me.engine->register_memory(me.pd, me.at(0), TwoEngines::kMemory, me.at(0), kAccessLocalWrite | kAccessMwBind)
            .value();
    window[0] = me.engine->alloc_window(me.pd, false).value();
    window[1] = me.engine->alloc_window(me.pd, true).value();
    for (int k = 0; k < 2; ++k) key[k] = me.engine->info(window[k]).rkey;
  }
  static PairOptions options() {
    PairOptions options;
    options.mode[0] = options.mode[1] = GetParam();
    return options;
  }
  SendRequest binding(int k, std::uint32_t access = kRemote, std::uint64_t length = kLength) {
    key[k] = (key[k] & ~0xFFu) | ((key[k] + 1) & 0xFF);
    SendRequest request;
    request.wr_id = 70;
    request.opcode = WorkOpcode::kBindMw;
    request.flags = kSendSignaled;
    request.rkey = key[k];
    request.immediate_be = pair.side[1].engine->info(region).lkey;
    request.remote_address = pair.side[1].at(kAt);
    request.compare_or_add = length;
    request.swap = access;
    return request;
  }
  static SendRequest invalidation(std::uint32_t rkey) {
    SendRequest request;
    request.wr_id = 71;
    request.opcode = WorkOpcode::kLocalInvalidate;
    request.flags = kSendSignaled;
    request.immediate_be = rkey;
    return request;
  }
  CompletionStatus status_of(int i, const SendRequest& request) {
    EXPECT_TRUE(pair.post(i, request).ok());
    EXPECT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(i);
    return done.empty() ? CompletionStatus::kGeneralError : done[0].status;
  }
  // A WRITE of 16 bytes to `offset` of the window.
  SendRequest through(int k, std::uint64_t offset = 0, std::uint32_t bytes = 16) {
    SendRequest request = pair.request(0, WorkOpcode::kRdmaWrite, 0, bytes, 1);
    request.rkey = key[k];
    request.remote_address = pair.side[1].at(kAt) + offset;
    return request;
  }
  // A wrong binding fails in its turn: earlier requests complete, later ones do not.
  void expect_refused(const std::function<void(SendRequest&)>& spoil) {
    SendRequest request = binding(1);
    spoil(request);
    ASSERT_TRUE(pair.post(1, pair.write(1, 0, 3000, 1)).ok());
    ASSERT_TRUE(pair.post(1, request).ok());
    ASSERT_TRUE(pair.post(1, pair.write(1, 0, 3000, 2)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto done = pair.poll(1);
    ASSERT_EQ(done.size(), 3u);
    EXPECT_EQ(done[0].status, CompletionStatus::kSuccess);
    EXPECT_EQ(done[1].status, CompletionStatus::kWindowBindError);
    EXPECT_EQ(done[2].status, CompletionStatus::kFlushed);
  }
  void bind(int k) { ASSERT_EQ(status_of(1, binding(k)), CompletionStatus::kSuccess); }

  TwoEngines pair;
  MemoryRegion* region = nullptr;
  MemoryRegion* window[2] = {};  // type 1, type 2
  std::uint32_t key[2] = {};
};

constexpr CompletionStatus kOk = CompletionStatus::kSuccess, kNoAccess = CompletionStatus::kRemoteAccessError;

TEST_P(Windows, LendWhatTheyAreBoundTo) {
  for (int k = 0; k < 2; ++k) {
    bind(k);
    pair.fill(0, static_cast<std::uint64_t>(k) + 1);
    EXPECT_EQ(status_of(0, through(k, 0, kLength)), kOk);
    EXPECT_TRUE(pair.same(0, kLength, kAt));
    SendRequest read = through(k);
    read.opcode = WorkOpcode::kRdmaRead;
    EXPECT_EQ(status_of(0, read), kOk);
  }
}

TEST_P(Windows, NothingBesides) {
  bind(0);
  EXPECT_EQ(status_of(0, through(0, kLength - 15)), kNoAccess);
}
TEST_P(Windows, NothingBefore) {
  bind(1);
  EXPECT_EQ(status_of(0, through(1, ~std::uint64_t{0})), kNoAccess);
}
TEST_P(Windows, NothingUnbound) { EXPECT_EQ(status_of(0, through(1)), kNoAccess); }

TEST_P(Windows, NothingThatTheyWereNotGranted) {
  ASSERT_EQ(status_of(1, binding(1, kAccessRemoteRead)), kOk);
  EXPECT_EQ(status_of(0, through(1)), kNoAccess);
}

TEST_P(Windows, TheOldKeyEndsWithANewBinding) {
  bind(0);
  const SendRequest before = through(0);
  bind(0);
  EXPECT_EQ(status_of(0, through(0)), kOk);
  EXPECT_EQ(status_of(0, before), kNoAccess);
}

TEST_P(Windows, OfType1AreTakenBackByBindingThemToNothing) {
  bind(0);
  EXPECT_EQ(pair.side[1].engine->deregister_memory(region).error(), EBUSY);
  EXPECT_EQ(pair.side[1].engine->change_memory(region, 4, *region).error(), EBUSY);
  ASSERT_EQ(status_of(1, binding(0, 0, 0)), kOk);
  EXPECT_TRUE(pair.side[1].engine->deregister_memory(region).ok());
  EXPECT_EQ(status_of(0, through(0)), kNoAccess);
}

TEST_P(Windows, OfType2AreInvalidatedLocallyAndBoundAgain) {
  bind(1);
  ASSERT_EQ(status_of(1, invalidation(key[1])), kOk);
  bind(1);
  EXPECT_EQ(status_of(0, through(1)), kOk);
  ASSERT_EQ(status_of(1, invalidation(key[1])), kOk);
  EXPECT_EQ(status_of(0, through(1)), kNoAccess);
}

TEST_P(Windows, OfType2AreInvalidatedByThePeersSend) {
  bind(1);
  ASSERT_TRUE(pair.post_receive(1, 100'000, 5000, 9).ok());
  SendRequest send = pair.request(0, WorkOpcode::kSendWithInvalidate, 0, 3000, 2);
  send.immediate_be = key[1];
  ASSERT_EQ(status_of(0, send), kOk);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].flags, kCompletionWithInvalidate);
  EXPECT_EQ(received[0].immediate_be, key[1]);
  EXPECT_EQ(received[0].byte_length, 3000u);
  EXPECT_TRUE(pair.side[1].engine->deregister_memory(region).ok());
  EXPECT_EQ(status_of(0, through(1)), kNoAccess);
}

TEST_P(Windows, APeersInvalidationOfSomethingElseIsAnAccessError) {
  bind(0);
  ASSERT_TRUE(pair.post_receive(1, 100'000, 5000, 9).ok());
  SendRequest send = pair.request(0, WorkOpcode::kSendWithInvalidate, 0, 16, 2);
  send.immediate_be = key[0];  // type 1
  EXPECT_EQ(status_of(0, send), kNoAccess);
  const auto received = pair.poll_receives(1);
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].status, CompletionStatus::kFlushed);
}

TEST_P(Windows, ZeroBasedOnesCountFromZero) {
  ASSERT_EQ(status_of(1, binding(0, kRemote | kAccessZeroBased)), kOk);
  pair.fill(0, 5);
  SendRequest write = through(0);
  write.remote_address = kLength - 16;
  EXPECT_EQ(status_of(0, write), kOk);
  EXPECT_TRUE(pair.same(0, 16, kAt + kLength - 16));
  write.remote_address = kLength - 15;
  EXPECT_EQ(status_of(0, write), kNoAccess);
}

TEST_P(Windows, ServeNoWorkRequestOfTheirOwner) {
  bind(0);
  SendRequest send = pair.request(1, WorkOpcode::kRdmaWrite, 0, 16, 1);
  const Sge sge{pair.side[1].at(kAt), 16, key[0]};
  send.sges = {&sge, 1};
  EXPECT_EQ(status_of(1, send), CompletionStatus::kLocalProtectionError);
}

TEST_P(Windows, AKeyOfAnotherWindow) {
  expect_refused([](SendRequest& r) { r.rkey ^= 0x100; });
}
TEST_P(Windows, NoRegion) {
  expect_refused([](SendRequest& r) { r.immediate_be ^= 0x1000; });
}
TEST_P(Windows, ARegionWithoutTheRightToBeBound) {
  expect_refused([this](SendRequest& r) { r.immediate_be = pair.side[1].key; });
}
TEST_P(Windows, BeforeTheRegion) {
  expect_refused([this](SendRequest& r) { r.remote_address = pair.side[1].at(0) - 1; });
}
TEST_P(Windows, BeyondTheRegion) {
  expect_refused([](SendRequest& r) { r.compare_or_add = TwoEngines::kMemory; });
}
TEST_P(Windows, AccessThatIsNotAPeers) {
  expect_refused([](SendRequest& r) { r.swap |= kAccessMwBind; });
}
// Programs set it out of habit; the region's flag counts.
TEST_P(Windows, LocalWriteGrantsNothing) {
  ASSERT_EQ(status_of(1, binding(1, kAccessLocalWrite)), CompletionStatus::kSuccess);
  EXPECT_EQ(status_of(0, through(1)), CompletionStatus::kRemoteAccessError);
}
TEST_P(Windows, OfType2Empty) {
  expect_refused([](SendRequest& r) { r.compare_or_add = 0; });
}

TEST_P(Windows, OfType2AreNotBoundTwice) {
  bind(1);
  EXPECT_EQ(status_of(1, binding(1)), CompletionStatus::kWindowBindError);
}

TEST_P(Windows, InvalidatingWhatIsNotBoundFails) {
  EXPECT_EQ(status_of(1, invalidation(key[1])), CompletionStatus::kLocalQpOperationError);
}

// Work requests keep their order: a message to the peer about a window arrives after the binding; completions come in
// posting order.
TEST_P(Windows, LocalOperationsKeepTheirPlaceUnderLoss) {
  pair.drop = [random = Random{3, "loss"}](const Sent& sent) mutable { return sent.data() && random.below(10) == 0; };
  for (int round = 0; round < 30; ++round) {
    ASSERT_TRUE(pair.post_receive(0, 500'000, 64, 1).ok());
    ASSERT_TRUE(pair.post(1, pair.write(1, 200'000, 3000, 1)).ok());
    ASSERT_TRUE(pair.post(1, binding(1)).ok());
    ASSERT_TRUE(pair.post(1, pair.request(1, WorkOpcode::kSend, 0, 8, 2)).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto first = pair.poll(1);
    ASSERT_EQ(first.size(), 3u);
    EXPECT_EQ(first[0].opcode, CompletionOpcode::kRdmaWrite);
    EXPECT_EQ(first[1].opcode, CompletionOpcode::kBindMw);
    EXPECT_EQ(first[2].opcode, CompletionOpcode::kSend);
    EXPECT_EQ(status_of(0, through(1, 0, kLength)), kOk);
    ASSERT_TRUE(pair.post(1, pair.write(1, 200'000, 3000, 1)).ok());
    ASSERT_TRUE(pair.post(1, invalidation(key[1])).ok());
    ASSERT_TRUE(pair.run_until_idle());
    const auto second = pair.poll(1);
    ASSERT_EQ(second.size(), 2u);
    EXPECT_EQ(second[0].opcode, CompletionOpcode::kRdmaWrite);
    EXPECT_EQ(second[1].opcode, CompletionOpcode::kLocalInvalidate);
    EXPECT_EQ(second[1].status, kOk);
  }
}

// The last packet before a local operation requests its acknowledgement: nothing else behind it will.
TEST_P(Windows, NothingWaitsForAProbeBecauseOfThem) {
  const Instant before = pair.now;
  ASSERT_TRUE(pair.post(1, pair.write(1, 0, 100, 1)).ok());
  ASSERT_TRUE(pair.post(1, binding(1)).ok());
  pair.run_for(50_us);
  EXPECT_EQ(pair.poll(1).size(), 2u) << (pair.now - before).ns();
}

TEST_P(Windows, AQueuePairsWindowsOfType2GoWithIt) {
  bind(1);
  TwoEngines::Side& me = pair.side[1];
  EXPECT_EQ(me.engine->deregister_memory(region).error(), EBUSY);
  ASSERT_TRUE(me.engine->destroy_qp(me.qp).ok());
  EXPECT_TRUE(me.engine->deregister_memory(region).ok());
  EXPECT_EQ(me.engine->dealloc_pd(me.pd).error(), EBUSY);
  for (MemoryRegion* each : window) EXPECT_TRUE(me.engine->dealloc_window(each).ok());
}

TEST_P(Windows, LocalOperationsHaveNoData) {
  SendRequest request = binding(1);
  const Sge sge{pair.side[1].at(0), 8, pair.side[1].key};
  request.sges = {&sge, 1};
  EXPECT_EQ(pair.post(1, request).error(), EINVAL);
  request.sges = {};
  request.flags |= kSendInline;
  EXPECT_EQ(pair.post(1, request).error(), EINVAL);
}

TEST_P(Windows, AFencedBindingWaitsForWhatWasRead) {
  SendRequest read = pair.request(1, WorkOpcode::kRdmaRead, 0, 20'000, 1);
  ASSERT_TRUE(pair.post(1, read).ok());
  SendRequest fenced = binding(1);
  fenced.flags |= kSendFence;
  ASSERT_TRUE(pair.post(1, fenced).ok());
  pair.run_for(5_us);
  EXPECT_TRUE(pair.side[1].engine->deregister_memory(region).ok()) << "bound before the data of the READ was there";
}

INSTANTIATE_TEST_SUITE_P(Modes, Windows, testing::Values(RecoveryMode::kBitmap, RecoveryMode::kStandard),
                         [](const auto& info) { return info.param == RecoveryMode::kBitmap ? "Bitmap" : "Standard"; });

}  // namespace
}  // namespace brdma::test
