// qp/execute/request_checks.h: what a request must satisfy before it has any effect.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <optional>

#include "qp/execute/request_checks.h"
#include "qp/queues/shared_receive_queue.h"
#include "wire/local_reference.h"

namespace brdma::qp {
namespace {

using wire::RcOp;

constexpr std::uint32_t kMtu = 1024;
constexpr std::uint64_t kStart = 0x10'0000, kUnaligned = 0x20'0000;  // of the regions, in requests
constexpr std::size_t kRegion = 4096;
constexpr std::uint32_t kAll = kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
constexpr std::uint32_t kRsn = 5;  // receives completed

// A responder whose base is PSN 1000. All that it receives is allowed until a test takes something away.
struct Receiver {
  Receiver() {
    identity.pd = table.alloc_pd();
    identity.attributes.access = kAll;
    identity.attributes.max_dest_rd_atomic = 4;
    region = add(0, kStart);
    unaligned = add(1, kUnaligned);
  }
  std::uint32_t add(std::size_t offset, std::uint64_t iova) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data()) + offset;
    return table.add(identity.pd, address, kRegion, iova, kAll | kAccessLocalWrite).value()->key;
  }
  void post(std::uint32_t length) {
    const Sge sge{reinterpret_cast<std::uintptr_t>(bytes.data()), length, region};
    ASSERT_TRUE(receives.post({1, {&sge, 1}}).ok());
  }
  void hold(const wire::Packet& packet) {
    state.early.begin(kMtu, 1 << 20, {}, segments);
    ASSERT_TRUE(state.early.hold(window.base(), packet));
    window.receive(packet.bth.psn);
  }

  [[nodiscard]] wire::Packet packet(RcOp op, std::uint32_t psn) const {
    wire::Packet packet;
    packet.op = op;
    packet.bitmap = true;
    packet.bth.psn = Psn{psn};
    packet.bxth.rsn = kRsn;
    packet.reth = {.address = kStart, .rkey = region, .length = 0};
    packet.atomic.address = kStart;
    packet.atomic.rkey = region;
    packet.feth.placement = wire::kFlushGlobal;
    return packet;
  }
  [[nodiscard]] wire::Packet read(std::uint32_t psn, std::uint32_t length) const {
    wire::Packet request = packet(RcOp::kReadRequest, psn);
    request.reth.length = length;
    return request;
  }
  [[nodiscard]] wire::Packet atomic_write() const {
    wire::Packet request = packet(RcOp::kAtomicWrite, 1000);
    request.reth.length = 8;
    request.payload = ConstBytes{bytes}.first(8);
    return request;
  }
  [[nodiscard]] wire::Packet send(std::uint32_t psn, std::size_t size, std::uint32_t rsn = kRsn) const {
    wire::Packet request = packet(RcOp::kSendOnly, psn);
    request.bxth.rsn = rsn;
    request.payload = ConstBytes{bytes}.first(size);
    return request;
  }

  [[nodiscard]] RequestChecks checks(std::uint32_t mtu = kMtu) const { return RequestChecks{{table, identity, mtu}}; }
  [[nodiscard]] EarlyChecks early() { return EarlyChecks{{table, identity, window, &state, receives, kMtu, kRsn}}; }
  [[nodiscard]] Verdict atomic(const wire::Packet& request) const {
    std::byte* word = nullptr;
    return checks().atomic(request, word);
  }
  [[nodiscard]] Verdict atomic_write(const wire::Packet& request) const {
    std::byte* word = nullptr;
    return checks().atomic_write(request, word);
  }

  alignas(8) std::array<std::byte, kRegion + 8> bytes{};
  memory::MemoryTable table{SecretRandom{1, "keys"}};
  Identity identity;
  std::uint32_t region = 0, unaligned = 0;  // keys
  bitmap::SegmentPool segments;
  bitmap::ReceiveWindow window{Psn{1000}, {}, segments};
  OutOfOrderState state;
  ReceiveQueue receives{8, 1};
};

TEST(RequestSize, AReadTakesAPsnForEachResponse) {
  const Receiver receiver;
  EXPECT_EQ(psns_of(receiver.read(1000, 2 * kMtu + 1), kMtu), 3U);
  EXPECT_EQ(psns_of(receiver.read(1000, 0), kMtu), 1U);
  EXPECT_EQ(psns_of(receiver.send(1000, kMtu), kMtu), 1U);
  wire::Packet by_reference = receiver.read(1000, 2 * kMtu + 1);
  by_reference.bxth.operation = wire::Bxth::kByReference;
  EXPECT_EQ(psns_of(by_reference, kMtu), 1U) << "one response with a reference";
}

TEST(RequestSize, FirstAndMiddleCarryExactlyTheMtu) {
  const Receiver receiver;
  wire::Packet packet = receiver.send(1000, kMtu);
  EXPECT_TRUE(payload_fits_opcode(packet, kMtu));
  EXPECT_FALSE(payload_fits_opcode(packet, kMtu - 1)) << "longer than the MTU";
  EXPECT_TRUE(payload_fits_opcode(packet, kMtu + 1)) << "the last one may be shorter";
  packet.op = RcOp::kSendMiddle;
  EXPECT_TRUE(payload_fits_opcode(packet, kMtu));
  EXPECT_FALSE(payload_fits_opcode(packet, kMtu + 1));
  packet.bxth.operation = wire::Bxth::kByReference;
  EXPECT_TRUE(payload_fits_opcode(packet, kMtu + 1));
}

TEST(RequestChecks, AReadNeedsTheRightAndResponses) {
  Receiver receiver;
  EXPECT_EQ(receiver.checks().read(receiver.read(1000, kRegion)), Verdict::kDone);
  receiver.identity.attributes.access = kAll & ~kAccessRemoteRead;
  EXPECT_EQ(receiver.checks().read(receiver.read(1000, kRegion)), Verdict::kInvalidRequest);
  receiver.identity.attributes.access = kAll;
  receiver.identity.attributes.max_dest_rd_atomic = 0;
  EXPECT_EQ(receiver.checks().read(receiver.read(1000, kRegion)), Verdict::kInvalidRequest);
}

TEST(RequestChecks, AReadStaysWithinItsRegion) {
  const Receiver receiver;
  EXPECT_EQ(receiver.checks().read(receiver.read(1000, kRegion + 1)), Verdict::kAccessError);
  wire::Packet other_key = receiver.read(1000, 1);
  other_key.reth.rkey ^= 1;
  EXPECT_EQ(receiver.checks().read(other_key), Verdict::kAccessError);
}

// A longer one than allowed is an invalid request, whatever its key. One that is allowed meets the region's end.
TEST(RequestChecks, AReadHasAQuarterOfThePsnsAtMost) {
  const Receiver receiver;
  EXPECT_EQ(receiver.checks(256).read(receiver.read(1000, 256u << 22)), Verdict::kAccessError);
  EXPECT_EQ(receiver.checks(256).read(receiver.read(1000, (256u << 22) + 1)), Verdict::kInvalidRequest);
  EXPECT_EQ(receiver.checks(4096).read(receiver.read(1000, 1u << 31)), Verdict::kAccessError);
  EXPECT_EQ(receiver.checks(4096).read(receiver.read(1000, (1u << 31) + 1)), Verdict::kInvalidRequest);
}

TEST(RequestChecks, AnAtomicNeedsTheRightAndResponses) {
  Receiver receiver;
  const wire::Packet request = receiver.packet(RcOp::kFetchAdd, 1000);
  std::byte* word = nullptr;
  EXPECT_EQ(receiver.checks().atomic(request, word), Verdict::kDone);
  EXPECT_EQ(word, receiver.bytes.data());
  receiver.identity.attributes.access = kAll & ~kAccessRemoteAtomic;
  EXPECT_EQ(receiver.atomic(request), Verdict::kInvalidRequest);
  receiver.identity.attributes.access = kAll;
  receiver.identity.attributes.max_dest_rd_atomic = 0;
  EXPECT_EQ(receiver.atomic(request), Verdict::kInvalidRequest);
}

TEST(RequestChecks, AnAtomicsWordIsAligned) {
  const Receiver receiver;
  wire::Packet request = receiver.packet(RcOp::kFetchAdd, 1000);
  request.atomic.address = kStart + 4;
  EXPECT_EQ(receiver.atomic(request), Verdict::kInvalidRequest);
  request.atomic.address = kStart + kRegion;
  EXPECT_EQ(receiver.atomic(request), Verdict::kAccessError);
  request.atomic.address = kUnaligned;
  request.atomic.rkey = receiver.unaligned;
  EXPECT_EQ(receiver.atomic(request), Verdict::kInvalidRequest) << "the region itself is not aligned";
}

TEST(RequestChecks, AnAtomicWriteNeedsTheRightAndResponses) {
  Receiver receiver;
  std::byte* word = nullptr;
  EXPECT_EQ(receiver.checks().atomic_write(receiver.atomic_write(), word), Verdict::kDone);
  EXPECT_EQ(word, receiver.bytes.data());
  receiver.identity.attributes.access = kAll & ~kAccessRemoteWrite;
  EXPECT_EQ(receiver.atomic_write(receiver.atomic_write()), Verdict::kInvalidRequest);
  receiver.identity.attributes.access = kAll;
  receiver.identity.attributes.max_dest_rd_atomic = 0;
  EXPECT_EQ(receiver.atomic_write(receiver.atomic_write()), Verdict::kInvalidRequest);
}

TEST(RequestChecks, AnAtomicWriteIsOfOneAlignedWord) {
  const Receiver receiver;
  wire::Packet request = receiver.atomic_write();
  request.payload = request.payload.first(7);
  EXPECT_EQ(receiver.atomic_write(request), Verdict::kInvalidRequest);
  request = receiver.atomic_write();
  request.reth.length = 16;
  EXPECT_EQ(receiver.atomic_write(request), Verdict::kInvalidRequest);
  request = receiver.atomic_write();
  request.reth.address = kStart + 4;
  EXPECT_EQ(receiver.atomic_write(request), Verdict::kInvalidRequest);
  request.reth.address = kStart + kRegion;
  EXPECT_EQ(receiver.atomic_write(request), Verdict::kAccessError);
  request.reth.address = kUnaligned;
  request.reth.rkey = receiver.unaligned;
  EXPECT_EQ(receiver.atomic_write(request), Verdict::kInvalidRequest);
}

TEST(RequestChecks, AFlushNamesWhatIsKnown) {
  Receiver receiver;
  wire::Packet request = receiver.packet(RcOp::kFlush, 1000);
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kDone);
  request.feth.placement = 0;
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kInvalidRequest);
  request.feth.placement = 4;
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kInvalidRequest);
  request.feth.placement = wire::kFlushGlobal | wire::kFlushPersistent;
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kInvalidRequest) << "persistence is granted to nobody";
  request.feth = {.placement = wire::kFlushGlobal, .selectivity = 2};
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kInvalidRequest);
  request.feth.selectivity = wire::kFlushRange;
  receiver.identity.attributes.max_dest_rd_atomic = 0;
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kInvalidRequest);
}

TEST(RequestChecks, AFlushOfARegionIgnoresItsRange) {
  const Receiver receiver;
  wire::Packet request = receiver.packet(RcOp::kFlush, 1000);
  request.reth.length = kRegion + 1;
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kAccessError);
  request.feth.selectivity = wire::kFlushRegion;
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kDone);
  request.reth.rkey ^= 1;
  EXPECT_EQ(receiver.checks().flush(request), Verdict::kAccessError);
}

TEST(EarlyChecks, AReadIsHeldIfItsResponsesFitIntoTheWindow) {
  Receiver receiver;
  const std::uint32_t last = 1000 + receiver.window.open() - 1;
  EXPECT_EQ(receiver.early().held(receiver.read(last, kMtu)), std::nullopt);
  EXPECT_EQ(receiver.early().held(receiver.read(last, kMtu + 1)), DropReason::kOutOfWindow);
  EXPECT_EQ(receiver.early().held(receiver.read(1001, kRegion + 1)), DropReason::kEarlyInvalid) << "as in order";
}

TEST(EarlyChecks, AReadsResponsesTakeNobodysPsns) {
  Receiver receiver;
  receiver.window.receive(Psn{1005});
  EXPECT_EQ(receiver.early().held(receiver.read(1002, 3 * kMtu)), std::nullopt);
  EXPECT_EQ(receiver.early().held(receiver.read(1002, 4 * kMtu)), DropReason::kEarlyInvalid);
  EXPECT_FALSE(receiver.early().overlaps(receiver.read(1006, 4 * kMtu))) << "beyond all that has come";
}

// Its own PSNs are marked then.
TEST(EarlyChecks, AHeldReadDoesNotOverlapItself) {
  Receiver receiver;
  const wire::Packet request = receiver.read(1001, 3 * kMtu);
  receiver.hold(request);
  receiver.window.receive(Psn{1002});
  EXPECT_FALSE(receiver.early().overlaps(request));
}

TEST(EarlyChecks, AtomicsAndTheLikeAreCheckedAsInOrder) {
  Receiver receiver;
  wire::Packet atomic = receiver.packet(RcOp::kCompareSwap, 1001);
  wire::Packet flush = receiver.packet(RcOp::kFlush, 1001);
  wire::Packet write = receiver.atomic_write();
  for (const wire::Packet& request : {atomic, flush, write}) EXPECT_EQ(receiver.early().held(request), std::nullopt);
  atomic.atomic.address = kStart + 4;
  flush.feth.placement = 0;
  write.reth.length = 7;
  for (const wire::Packet& request : {atomic, flush, write})
    EXPECT_EQ(receiver.early().held(request), DropReason::kEarlyInvalid);
}

TEST(EarlyChecks, ASendHasItsReceive) {
  Receiver receiver;
  EXPECT_EQ(receiver.early().held(receiver.send(1001, 100)), DropReason::kEarlyNoReceive);
  receiver.post(100);
  receiver.post(200);
  EXPECT_EQ(receiver.early().held(receiver.send(1001, 100)), std::nullopt);
  EXPECT_EQ(receiver.early().held(receiver.send(1001, 101)), DropReason::kEarlyInvalid);
  EXPECT_EQ(receiver.early().held(receiver.send(1001, 200, kRsn + 1)), std::nullopt);
  EXPECT_EQ(receiver.early().held(receiver.send(1001, 1, kRsn + 2)), DropReason::kEarlyNoReceive);
  wire::Packet later = receiver.send(1001, 1);
  later.bxth.packet_index = 1;
  EXPECT_EQ(receiver.early().held(later), DropReason::kEarlyInvalid) << "beyond the receive";
  later.bitmap = false;
  EXPECT_EQ(receiver.early().held(later), std::nullopt) << "a standard packet does not name its receive";
}

// The place of data by reference in its message is known only in order: its size alone is compared.
TEST(EarlyChecks, ASendByReferenceIsNoLongerThanItsReceive) {
  Receiver receiver;
  receiver.post(100);
  std::array<std::byte, wire::kReferenceSizeMax> reference;
  wire::Packet request = receiver.send(1001, 0);
  request.bxth.operation = wire::Bxth::kByReference;
  request.bxth.packet_index = 7;
  for (const std::uint32_t bytes : {100u, 101u}) {
    const LocalPiece piece{0x1000, bytes};
    request.payload = ConstBytes{reference}.first(wire::emit_reference(1, {&piece, 1}, reference.data()));
    const auto expected = bytes == 100 ? std::nullopt : std::optional{DropReason::kEarlyInvalid};
    EXPECT_EQ(receiver.early().held(request), expected) << bytes;
  }
}

TEST(EarlyChecks, AWriteHasItsRightAndItsPlace) {
  Receiver receiver;
  wire::Packet request = receiver.packet(RcOp::kWriteOnly, 1001);
  request.payload = ConstBytes{receiver.bytes}.first(200);
  EXPECT_EQ(receiver.early().held(request), std::nullopt);
  request.op = RcOp::kWriteOnlyImm;
  EXPECT_EQ(receiver.early().held(request), DropReason::kEarlyNoReceive);
  receiver.post(100);
  EXPECT_EQ(receiver.early().held(request), std::nullopt) << "its data does not go there";
  request.reth.address = kStart + kRegion - 199;
  EXPECT_EQ(receiver.early().held(request), DropReason::kEarlyInvalid);
  request.reth.address = kStart;
  receiver.identity.attributes.access = kAll & ~kAccessRemoteWrite;
  EXPECT_EQ(receiver.early().held(request), DropReason::kEarlyInvalid);
}

// Each message has a PSN at least. A larger RSN would take the others' receives from a shared queue.
TEST(EarlyChecks, AnRsnFurtherAwayThanThePsnTakesNoReceive) {
  Receiver receiver;
  Ring<SharedReceiveQueue*> low;
  SharedReceiveQueue shared{receiver.identity.pd, {.wr_max = 8, .sge_max = 1, .limit = 0}, nullptr, low};
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(shared.post({}).ok());
  receiver.identity.srq = &shared;
  receiver.receives = ReceiveQueue{receiver.identity};
  EXPECT_EQ(receiver.early().receive_index(receiver.send(1001, 0, kRsn + 2)), std::nullopt);
  EXPECT_EQ(shared.size(), 4U);
  EXPECT_EQ(receiver.early().receive_index(receiver.send(1001, 0, kRsn + 1)), 1U);
  EXPECT_EQ(shared.size(), 2U);
}

}  // namespace
}  // namespace brdma::qp
