// qp/read/response_placement.h: responses to the memory that their work request names.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "qp/read/response_placement.h"
#include "support/sender_parts.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kMtu = test::SenderParts::kMtu;

// A READ of 2.5 packets, its second chunk, into memory of ours.
struct Reader : test::SenderParts {
  Reader() {
    queue = SendQueue{{.send_wr_max = 4, .send_sge_max = 4}};
    identity.pd = memory.alloc_pd();
    const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
    region = memory.add(identity.pd, at, bytes.size(), at, kAccessLocalWrite).value();
    lkey = region->key;
    EXPECT_TRUE(queue.push({.sges = std::vector<Sge>{{at, static_cast<std::uint32_t>(bytes.size()), lkey}},
                            .opcode = WorkOpcode::kRdmaRead},
                           static_cast<std::uint32_t>(bytes.size())));
  }
  static Message chunk(MessageKind kind = MessageKind::kRead) {
    return {.first = 4, .wqe = 0, .packets = 3, .offset = 1000, .length = 2 * kMtu + 512, .kind = kind};
  }
  wire::Packet response(std::size_t size) {
    wire::Packet packet;
    packet.op = wire::RcOp::kReadResponseMiddle;
    packet.payload = {payload.data(), size};
    return packet;
  }
  bool place(const wire::Packet& packet, Sequence sequence, const Message& message = chunk()) {
    return ResponsePlacement{{environment, identity, queue, fault, references()}}.place(packet, sequence, message);
  }
  [[nodiscard]] std::size_t written() const {
    std::size_t count = 0;
    for (const std::byte each : bytes) count += each != std::byte{0} ? 1 : 0;
    return count;
  }

  std::array<std::byte, 8192> bytes{};
  std::array<std::byte, kMtu> payload = [] {
    std::array<std::byte, kMtu> all;
    all.fill(std::byte{7});
    return all;
  }();
  MemoryRegion* region = nullptr;
  std::uint32_t lkey = 0;
};

TEST(ResponsePlacement, OnlyAReadIsAnsweredByData) {
  wire::Packet read, atomic;
  read.op = wire::RcOp::kReadResponseOnly;
  atomic.op = wire::RcOp::kAtomicAcknowledge;
  const auto answers = [](const wire::Packet& packet, MessageKind kind) {
    return ResponsePlacement::answers(packet, {.kind = kind});
  };
  EXPECT_TRUE(answers(read, MessageKind::kRead));
  EXPECT_TRUE(answers(read, MessageKind::kConfirmed));
  EXPECT_FALSE(answers(read, MessageKind::kAtomic));
  EXPECT_FALSE(answers(read, MessageKind::kWrite));
  EXPECT_TRUE(answers(atomic, MessageKind::kAtomic));
  EXPECT_FALSE(answers(atomic, MessageKind::kRead));
  EXPECT_FALSE(answers(atomic, MessageKind::kConfirmed));
}

TEST(ResponsePlacement, EachResponseGoesToItsOwnPlace) {
  Reader reader;
  EXPECT_TRUE(reader.place(reader.response(kMtu), 5));
  EXPECT_EQ(reader.written(), kMtu);
  EXPECT_EQ(reader.bytes[1000 + kMtu], std::byte{7});
  EXPECT_EQ(reader.bytes[1000 + 2 * kMtu - 1], std::byte{7});
  EXPECT_TRUE(reader.place(reader.response(512), 6)) << "the last is shorter";
  EXPECT_EQ(reader.written(), kMtu + 512);
}

TEST(ResponsePlacement, AnotherLengthIsDropped) {
  Reader reader;
  EXPECT_FALSE(reader.place(reader.response(kMtu - 1), 5));
  EXPECT_FALSE(reader.place(reader.response(kMtu), 6));
  EXPECT_EQ(reader.statistics.get(DropReason::kBadLength), 2U);
  EXPECT_EQ(reader.written(), 0U);
  EXPECT_FALSE(reader.fault.is_set()) << "the peer's fault, not the work request's";
}

TEST(ResponsePlacement, AReferenceIsNoData) {
  Reader reader;
  wire::Packet packet = reader.response(kMtu);
  Message message = Reader::chunk();
  message.by_reference = 64;
  EXPECT_FALSE(reader.place(packet, 5, message));
  EXPECT_EQ(reader.statistics.get(DropReason::kBadLength), 1U);
}

TEST(ResponsePlacement, MemoryThatIsGoneIsAFaultOfTheWorkRequest) {
  Reader reader;
  ASSERT_TRUE(reader.memory.remove(reader.region).ok());
  EXPECT_FALSE(reader.place(reader.response(kMtu), 5));
  EXPECT_EQ(reader.statistics.get(DropReason::kFault), 1U);
  EXPECT_TRUE(reader.fault.is_set_at(0));
}

TEST(ResponsePlacement, AnAtomicsResultIsANumberOfThisMachine) {
  Reader reader;
  wire::Packet packet;
  packet.op = wire::RcOp::kAtomicAcknowledge;
  packet.atomic_original = 0x0102'0304'0506'0708;
  EXPECT_TRUE(reader.place(packet, 4, Reader::chunk(MessageKind::kAtomic)));
  std::uint64_t result = 0;
  std::memcpy(&result, reader.bytes.data(), sizeof result);
  EXPECT_EQ(result, 0x0102'0304'0506'0708U);
}

TEST(ResponsePlacement, AConfirmationHasNoData) {
  Reader reader;
  const Message message = Reader::chunk(MessageKind::kConfirmed);
  wire::Packet packet = reader.response(0);
  EXPECT_FALSE(reader.place(packet, 4, message)) << "not the only response";
  packet.op = wire::RcOp::kReadResponseOnly;
  EXPECT_TRUE(reader.place(packet, 4, message));
  packet.payload = {reader.payload.data(), 1};
  EXPECT_FALSE(reader.place(packet, 4, message));
  EXPECT_EQ(reader.statistics.get(DropReason::kBadLength), 2U);
  EXPECT_EQ(reader.written(), 0U);
}

}  // namespace
}  // namespace brdma::qp
