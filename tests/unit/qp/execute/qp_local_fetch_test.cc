// tests docs/explanation/local.md: requests by reference (qp/execute/fetch_local.h): which are admitted, and where
// their data goes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

#include "qp/execute/fetch_local.h"
#include "qp/state/local_path.h"
#include "sim/processes/local_processes.h"

namespace brdma::qp {
namespace {

using testing::Each;
using wire::RcOp;

constexpr std::uint32_t kMtu = 1024;
constexpr std::uint64_t kStart = 0x10'0000;  // of the region, in requests
constexpr std::uint64_t kPeerKey = 7;

// Two processes of one machine. `data` is the peer's, `bytes` is our region.
struct Receiver {
  Receiver() {
    config.local_memory = &own_process;
    identity.pd = memory.alloc_pd();
    identity.local = &local;
    local.peer = peer.own;
    local.fetches = local.peer_fetches = true;
    const std::uint32_t access = kAccessLocalWrite | kAccessRemoteWrite;
    region = memory.add(identity.pd, address(bytes.data()), bytes.size(), kStart, access).value()->key;
    for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(1 + i % 199);
  }
  static std::uint64_t address(const std::byte* at) { return reinterpret_cast<std::uintptr_t>(at); }

  // Refers to the first bytes of `data`, in two pieces where there are two.
  [[nodiscard]] wire::Packet packet(std::uint32_t size, RcOp op = RcOp::kWriteOnly, std::uint64_t key = kPeerKey) {
    const std::uint32_t first = (size + 1) / 2;
    const std::array<LocalPiece, 2> both{LocalPiece{address(data.data()), first},
                                         LocalPiece{address(data.data()) + first, size - first}};
    const std::span<const LocalPiece> pieces{both.data(), size == first ? 1u : 2u};
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = true;
    packet.bth.psn = Psn{1000};
    packet.bxth.operation = wire::Bxth::kByReference;
    packet.payload = ConstBytes{reference}.first(wire::emit_reference(key, pieces, reference.data()));
    return packet;
  }
  [[nodiscard]] wire::Packet read(std::uint32_t length) {
    wire::Packet request = packet(1, RcOp::kReadRequest);
    request.reth.length = length;
    return request;
  }
  [[nodiscard]] LocalFetch fetch() { return LocalFetch{{environment, identity, &state, kMtu}}; }
  [[nodiscard]] Verdict write(std::uint32_t size, std::uint64_t offset = 0) {
    return fetch().write(packet(size), {.rkey = region, .address = kStart + offset, .memory = nullptr});
  }
  [[nodiscard]] Verdict send(std::uint32_t size, std::uint64_t offset, memory::Fault& fault) {
    return fetch().send(packet(size, RcOp::kSendOnly), receives, offset, fault);
  }
  void post(std::uint32_t lkey) {
    const std::array<Sge, 2> sges{Sge{kStart, 600, lkey}, Sge{kStart + 1000, 5000, lkey}};
    ASSERT_TRUE(receives.post({1, sges}).ok());
  }
  // `size` bytes of `data` from `from` on lie at `at` in `bytes`.
  [[nodiscard]] bool has(std::size_t at, std::size_t from, std::size_t size) const {
    return std::ranges::equal(ConstBytes{bytes}.subspan(at, size), ConstBytes{data}.subspan(from, size));
  }
  [[nodiscard]] std::uint64_t count(Counter counter) const { return statistics.get(counter); }

  sim::LocalProcesses machine;
  sim::LocalProcess own_process{machine}, peer_process{machine};
  std::vector<std::byte> data = std::vector<std::byte>(8192), bytes = std::vector<std::byte>(8192);
  std::array<std::byte, wire::kReferenceSizeMax> reference{};
  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  Environment environment{.config = config, .memory = memory, .telemetry = {.statistics = statistics}};
  Identity identity;
  LocalPath peer{environment.pools.beacons, peer_process.self(), {kPeerKey, 70}};
  LocalPath local{environment.pools.beacons, own_process.self(), {8, 80}};
  OutOfOrderState state;
  ReceiveQueue receives{8, 2};
  std::uint32_t region = 0;  // its key
};

TEST(LocalFetch, AdmitsReferencesOfThePeerAlone) {
  Receiver receiver;
  EXPECT_TRUE(receiver.fetch().admits(receiver.packet(100)));
  EXPECT_TRUE(receiver.fetch().admits(receiver.packet(100, RcOp::kSendOnly)));
  EXPECT_FALSE(receiver.fetch().admits(receiver.packet(100, RcOp::kWriteOnly, kPeerKey + 1)));
  EXPECT_FALSE(receiver.fetch().admits(receiver.packet(100, RcOp::kFetchAdd))) << "it has no data";
  wire::Packet cut = receiver.packet(100);
  cut.payload = cut.payload.first(cut.payload.size() - 1);
  EXPECT_FALSE(receiver.fetch().admits(cut));
  receiver.local.fetches = false;
  EXPECT_FALSE(receiver.fetch().admits(receiver.packet(100))) << "its memory cannot be read";
  receiver.identity.local = nullptr;
  EXPECT_FALSE(receiver.fetch().admits(receiver.packet(100)));
}

TEST(LocalFetch, AReadsResponseIsAReferenceIfThePeerFetches) {
  Receiver receiver;
  EXPECT_TRUE(receiver.fetch().admits(receiver.read(1)));
  EXPECT_TRUE(receiver.fetch().admits(receiver.read(wire::LocalReference::kBytesMax)));
  EXPECT_FALSE(receiver.fetch().admits(receiver.read(0)));
  EXPECT_FALSE(receiver.fetch().admits(receiver.read(wire::LocalReference::kBytesMax + 1)));
  receiver.local.peer_fetches = false;
  EXPECT_FALSE(receiver.fetch().admits(receiver.read(1)));
  receiver.identity.local = nullptr;
  EXPECT_FALSE(receiver.fetch().admits(receiver.read(1)));
}

TEST(LocalFetch, AWritesDataGoesToItsPlace) {
  for (const std::uint32_t size : {1u, 8u, 9u, 3000u}) {
    Receiver receiver;
    ASSERT_EQ(receiver.write(size, 100), Verdict::kDone) << size;
    EXPECT_TRUE(receiver.has(100, 0, size)) << size;
    EXPECT_EQ(receiver.bytes[99], std::byte{0});
    EXPECT_EQ(receiver.bytes[100 + size], std::byte{0});
    EXPECT_EQ(receiver.count(Counter::kFetches), 1U);
    EXPECT_EQ(receiver.count(Counter::kFetchedBytes), size);
  }
}

TEST(LocalFetch, AKnownPlaceIsNotLookedUpAgain) {
  Receiver receiver;
  const auto verdict = receiver.fetch().write(receiver.packet(500), {.memory = receiver.bytes.data() + 20});
  ASSERT_EQ(verdict, Verdict::kDone);
  EXPECT_TRUE(receiver.has(20, 0, 500));
}

TEST(LocalFetch, AWriteStaysWithinItsRegion) {
  Receiver receiver;
  EXPECT_EQ(receiver.write(100, 8192 - 99), Verdict::kAccessError);
  EXPECT_EQ(receiver.count(Counter::kFetches), 0U);
  EXPECT_EQ(receiver.write(100, 8192 - 100), Verdict::kDone);
}

TEST(LocalFetch, WithoutThePeersMemoryItIsAsIfThePacketHadNotCome) {
  Receiver receiver;
  receiver.local.fetches = false;
  EXPECT_EQ(receiver.write(3000), Verdict::kNotFetched) << "no longer agreed";
  receiver.local.fetches = true;
  receiver.peer.darken();
  EXPECT_EQ(receiver.write(3000), Verdict::kNotFetched) << "the queue pair is gone";
  EXPECT_THAT(receiver.bytes, Each(std::byte{0}));
  EXPECT_EQ(receiver.count(Counter::kFetches), 0U);
  EXPECT_EQ(receiver.count(Counter::kFetchFaults), 0U);
}

TEST(LocalFetch, MemoryThatThePeerCannotReadIsItsFault) {
  Receiver receiver;
  receiver.machine.faulty = true;
  EXPECT_EQ(receiver.write(3000), Verdict::kOperationError);
  EXPECT_EQ(receiver.count(Counter::kFetchFaults), 1U);
}

TEST(LocalFetch, DataOfLaterPacketsStays) {
  Receiver receiver;
  receiver.state.early.begin(kMtu, 1 << 20, {}, receiver.environment.pools.segments);
  wire::Packet later = receiver.packet(1);
  later.bth.psn = Psn{1005};
  later.payload = ConstBytes{receiver.data}.first(kMtu);
  receiver.state.early.note_placed(Psn{1000}, later, receiver.bytes.data() + kMtu);
  ASSERT_EQ(receiver.write(3 * kMtu), Verdict::kDone);
  EXPECT_TRUE(receiver.has(0, 0, kMtu));
  const ConstBytes later_data = ConstBytes{receiver.bytes}.subspan(kMtu, kMtu);
  EXPECT_THAT((std::vector<std::byte>{later_data.begin(), later_data.end()}), Each(std::byte{0}));
  EXPECT_TRUE(receiver.has(2 * kMtu, 2 * kMtu, kMtu));
  receiver.peer.darken();
  EXPECT_EQ(receiver.write(3 * kMtu), Verdict::kNotFetched);
}

TEST(LocalFetch, ASendsDataGoesToItsReceive) {
  Receiver receiver;
  receiver.post(receiver.region);
  memory::Fault fault = memory::Fault::kNotThere;
  ASSERT_EQ(receiver.send(2000, 100, fault), Verdict::kDone);
  EXPECT_EQ(fault, memory::Fault::kNone);
  EXPECT_TRUE(receiver.has(100, 0, 500));
  EXPECT_TRUE(receiver.has(1000, 500, 1500));
  EXPECT_EQ(receiver.bytes[600], std::byte{0});
}

TEST(LocalFetch, AReceiveAtFaultIsDistinguishedFromThePeer) {
  Receiver receiver;
  memory::Fault fault = memory::Fault::kNone;
  receiver.post(receiver.region ^ 1);
  EXPECT_EQ(receiver.send(2000, 0, fault), Verdict::kOperationError);
  EXPECT_EQ(fault, memory::Fault::kBadKey);
  EXPECT_EQ(receiver.count(Counter::kFetches), 0U);
  receiver.receives.pop();
  receiver.post(receiver.region);
  receiver.machine.faulty = true;
  EXPECT_EQ(receiver.send(2000, 0, fault), Verdict::kOperationError);
  EXPECT_EQ(fault, memory::Fault::kNone);
  receiver.local.fetches = false;
  EXPECT_EQ(receiver.send(2000, 0, fault), Verdict::kNotFetched);
}

}  // namespace
}  // namespace brdma::qp
