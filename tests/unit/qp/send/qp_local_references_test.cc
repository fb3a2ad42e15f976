// qp/send/local_references.h: which messages leave by reference, how they are cut, and what a READ response with
// references does.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "qp/queues/payload_cursor.h"
#include "qp/send/local_references.h"
#include "support/sender_parts.h"
#include "support/survive_faults.h"

namespace brdma::qp {
namespace {

constexpr std::uint32_t kThreshold = 16'384;
constexpr std::uint64_t kOwnKey = 0x1111, kPeerKey = 0x2222;

std::uint64_t address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

// The driver, and behind it the peer's process, which is this one.
class PeerProcess : public LocalMemory {
 public:
  [[nodiscard]] LocalClaim self() const override { return {}; }
  [[nodiscard]] bool is_here(const IpAddress& /*peer*/) const override { return true; }
  [[nodiscard]] LocalState examine(const LocalClaim& /*claim*/, std::uint16_t /*source_port*/) override {
    return LocalState::kFetches;
  }
  [[nodiscard]] FetchResult fetch(const LocalClaim& /*peer*/, std::span<const LocalPiece> from,
                                  std::span<const Slice> to) override {
    ++asked;
    if (result != FetchResult::kDone) return result;
    std::vector<std::byte> data;
    for (const LocalPiece& piece : from) {
      const auto* const at = reinterpret_cast<const std::byte*>(static_cast<std::uintptr_t>(piece.address));
      data.insert(data.end(), at, at + piece.length);
    }
    std::size_t done = 0;
    for (const Slice& slice : to) {
      EXPECT_LE(done + slice.size, data.size());
      std::memcpy(const_cast<void*>(slice.data), data.data() + done, slice.size);
      done += slice.size;
    }
    EXPECT_EQ(done, data.size());
    return result;
  }

  FetchResult result = FetchResult::kDone;
  int asked = 0;
};

// A requester and its peer on one host that have agreed.
struct Sender : test::SenderParts {
  Sender() {
    queue = SendQueue{{.send_wr_max = 4, .send_sge_max = 32}};
    config.local_memory = &process;
    identity.pd = memory.alloc_pd();
    identity.local = &path;
    path.fetches = path.peer_fetches = path.peer_knows = true;
    path.peer.nonce[0] = kPeerKey;
  }

  std::uint64_t post(const std::vector<Sge>& sges, WorkOpcode opcode = WorkOpcode::kRdmaWrite) {
    std::uint32_t length = 0;
    for (const Sge& sge : sges) length += sge.length;
    EXPECT_TRUE(queue.push({.sges = sges, .opcode = opcode}, length));
    return queue.tail() - 1;
  }
  // Pieces of these lengths, anywhere.
  std::uint64_t post(std::initializer_list<std::uint32_t> lengths, WorkOpcode opcode = WorkOpcode::kRdmaWrite) {
    std::vector<Sge> sges;
    for (const std::uint32_t length : lengths) sges.push_back({.address = 4096, .length = length});
    return post(sges, opcode);
  }
  std::uint32_t next_bytes() { return references().next_bytes(); }
  // The next packet leaves.
  Message next_packet() {
    Message message{.wqe = queue.next(), .kind = MessageKind::kWrite};
    references().begin(message, queue[queue.next()], next_bytes());
    if (message.last_of_wqe) queue.begin_next();
    return message;
  }
  // Its references' bytes, of a WRITE that is posted now.
  static std::uint32_t bytes_of(std::initializer_list<std::uint32_t> lengths, std::uint32_t threshold = kThreshold) {
    Sender sender;
    sender.config.transfer.local_threshold_bytes = threshold;
    sender.post(lengths);
    return sender.next_bytes();
  }

  PeerProcess process;
  LocalPath path{environment.pools.beacons, LocalClaim{}, {kOwnKey, 1}};
};

// --- which messages ---

TEST(LocalReferences, OnlyLargeMessages) {
  EXPECT_EQ(Sender::bytes_of({kThreshold - 1}), 0U);
  EXPECT_EQ(Sender::bytes_of({kThreshold}), kThreshold);
  EXPECT_EQ(Sender::bytes_of({kThreshold / 2, kThreshold / 2}), kThreshold) << "in all its pieces";
}

TEST(LocalReferences, NoneIfSwitchedOff) {
  Sender sender;
  sender.config.transfer.local = false;
  sender.post({kThreshold});
  EXPECT_EQ(sender.next_bytes(), 0U);
}

TEST(LocalReferences, WithoutThresholdAnythingButNothing) {
  Sender sender;
  sender.config.transfer.local_threshold_bytes = 0;
  EXPECT_FALSE(sender.references().is_worth_one({.length = 0}));
  EXPECT_TRUE(sender.references().is_worth_one({.length = 1}));
}

TEST(LocalReferences, InlineDataIsSent) {
  Sender sender;
  EXPECT_FALSE(sender.references().is_worth_one({.length = kThreshold, .inlined = true}));
}

TEST(LocalReferences, LargeReadsAskForThem) {
  for (const std::uint32_t length : {kThreshold - 1, kThreshold}) {
    Sender sender;
    sender.post({length}, WorkOpcode::kRdmaRead);
    EXPECT_EQ(sender.references().next_read(), length == kThreshold);
  }
}

TEST(LocalReferences, NoneWithoutAgreement) {
  const auto refused = [](auto&& disagree) {
    Sender sender;
    disagree(sender);
    sender.post({kThreshold});
    return sender.next_bytes() == 0 && !sender.references().next_read();
  };
  EXPECT_FALSE(refused([](Sender&) {}));
  EXPECT_TRUE(refused([](Sender& sender) { sender.identity.local = nullptr; })) << "another host";
  EXPECT_TRUE(refused([](Sender& sender) { sender.path.fetches = false; }));
  EXPECT_TRUE(refused([](Sender& sender) { sender.path.peer_fetches = false; }));
  EXPECT_TRUE(refused([](Sender& sender) { sender.path.peer_knows = false; }));
  EXPECT_TRUE(refused([](Sender& sender) { sender.identity.bitmap_agreed = false; }));
}

TEST(LocalReferences, PiecesOf512BytesOnAverage) {
  EXPECT_EQ(Sender::bytes_of({511, 512}, 1'000), 0U);
  EXPECT_EQ(Sender::bytes_of({512, 512}, 1'000), 1'024U);
  EXPECT_EQ(Sender::bytes_of({1, 1'023}, 1'000), 1'024U);
}

// --- how they are cut ---

TEST(LocalReferences, APacketRefersTo64KiB) {
  Sender sender;
  sender.post({150'000});
  const Message first = sender.next_packet(), second = sender.next_packet(), last = sender.next_packet();
  EXPECT_EQ(first.packets, 1U);
  EXPECT_EQ(first.offset, 0U);
  EXPECT_EQ(first.by_reference, 65'536U);
  EXPECT_EQ(first.length, wire::reference_size(1)) << "of its payload";
  EXPECT_FALSE(first.last_of_wqe);
  EXPECT_EQ(second.offset, 65'536U);
  EXPECT_EQ(second.by_reference, 65'536U);
  EXPECT_FALSE(second.last_of_wqe);
  EXPECT_EQ(last.offset, 131'072U);
  EXPECT_EQ(last.by_reference, 150'000U - 131'072U);
  EXPECT_TRUE(last.last_of_wqe);
  EXPECT_EQ(sender.next.cut, 0U) << "the next work request begins at its start";
}

TEST(LocalReferences, TheRestBeginsWithinAPiece) {
  Sender sender;
  sender.post({40'000, 40'000, 100});
  const Message first = sender.next_packet(), last = sender.next_packet();
  EXPECT_EQ(first.by_reference, 65'536U);
  EXPECT_EQ(first.length, wire::reference_size(2));
  EXPECT_FALSE(first.last_of_wqe);
  EXPECT_EQ(last.offset, 65'536U);
  EXPECT_EQ(last.by_reference, 80'100U - 65'536U);
  EXPECT_EQ(last.length, wire::reference_size(2));
  EXPECT_TRUE(last.last_of_wqe);
}

TEST(LocalReferences, ACutBetweenTwoPiecesDividesNone) {
  Sender sender;
  sender.post({65'536, 20'000});
  const Message first = sender.next_packet(), last = sender.next_packet();
  EXPECT_EQ(first.by_reference, 65'536U);
  EXPECT_EQ(first.length, wire::reference_size(1));
  EXPECT_EQ(last.by_reference, 20'000U);
  EXPECT_EQ(last.length, wire::reference_size(1));
}

TEST(LocalReferences, APacketRefersTo20Pieces) {
  Sender sender;
  sender.post(std::vector<Sge>(32, Sge{.address = 4096, .length = 1'000}));
  const Message first = sender.next_packet(), last = sender.next_packet();
  EXPECT_EQ(first.by_reference, 20'000U);
  EXPECT_EQ(first.length, wire::reference_size(20));
  EXPECT_FALSE(first.last_of_wqe);
  EXPECT_EQ(last.offset, 20'000U);
  EXPECT_EQ(last.by_reference, 12'000U);
  EXPECT_EQ(last.length, wire::reference_size(12));
  EXPECT_TRUE(last.last_of_wqe);
}

TEST(LocalReferences, EmptyPiecesDoNotCount) {
  std::vector<Sge> sges(20);
  sges.push_back({.address = 4096, .length = kThreshold / 2});
  sges.push_back({});
  sges.push_back({.address = 4096, .length = kThreshold / 2});
  Sender sender;
  sender.post(sges);
  const Message message = sender.next_packet();
  EXPECT_EQ(message.by_reference, kThreshold);
  EXPECT_EQ(message.length, wire::reference_size(2)) << "a reference holds none";
  EXPECT_TRUE(message.last_of_wqe);
}

// A message is sent one way only, whatever happens meanwhile.
TEST(LocalReferences, TheRestOfAMessageLeavesTheSameWay) {
  Sender sender;
  sender.post({65'536, 100, 100});
  (void)sender.next_packet();
  EXPECT_EQ(sender.next_bytes(), 200U) << "though its pieces are short";
  sender.path.peer_knows = false;
  EXPECT_EQ(sender.next_bytes(), 200U) << "though nothing is agreed any more";
}

// --- references ---

TEST(LocalReferences, AReferenceNamesKeyAndPieces) {
  std::byte bytes[3'000] = {};
  const Slice slices[] = {{bytes, 1'000}, {bytes + 1'500, 600}};
  ReferenceBuffer buffer;
  const std::span<const Slice> made = buffer.make(kOwnKey, slices);
  ASSERT_EQ(made.size(), 1U);
  const auto reference = wire::parse_reference({static_cast<const std::byte*>(made[0].data), made[0].size});
  ASSERT_TRUE(reference);
  EXPECT_EQ(reference->key, kOwnKey);
  EXPECT_EQ(reference->bytes, 1'600U);
  ASSERT_EQ(reference->piece_count, 2U);
  EXPECT_EQ(reference->piece[0], (LocalPiece{address_of(bytes), 1'000}));
  EXPECT_EQ(reference->piece[1], (LocalPiece{address_of(bytes + 1'500), 600}));
}

TEST(LocalReferences, APacketIsAsLongAsWasSaidWhenItBegan) {
  Sender sender;
  std::vector<std::byte> data(100'000);
  const MemoryRegion* const region =
      sender.memory.add(sender.identity.pd, address_of(data.data()), data.size(), address_of(data.data()), 0).value();
  const auto piece = [&](std::size_t from, std::uint32_t length) {
    return Sge{.address = address_of(&data[from]), .length = length, .lkey = region->key};
  };
  sender.post({piece(0, 30'000), piece(50'000, 0), piece(40'000, 45'000), piece(90'000, 1'000)});
  for (int packet = 0; packet < 2; ++packet) {
    const Message message = sender.next_packet();
    PayloadCursor cursor(sender.memory, sender.identity.pd, 0);
    cursor.seek(sender.queue, message.wqe, message.offset);
    ASSERT_TRUE(cursor.take(message.by_reference));
    ReferenceBuffer buffer;
    const Slice made = buffer.make(kOwnKey, cursor.slices()).front();
    EXPECT_EQ(made.size, message.length) << packet;
    const auto reference = wire::parse_reference({static_cast<const std::byte*>(made.data), made.size});
    ASSERT_TRUE(reference);
    EXPECT_EQ(reference->bytes, message.by_reference) << packet;
  }
  EXPECT_EQ(sender.queue.next(), 1U) << "all of it is begun";
}

// --- READ responses ---

// Two pieces of ours are read to, from the 51st byte of the first on.
struct Reader : Sender {
  static constexpr std::uint32_t kBytes = 20'000, kOffset = 50;

  Reader() {
    for (std::size_t i = 0; i < theirs.size(); ++i) theirs[i] = static_cast<std::byte>(i % 251 + 1);
    region =
        memory.add(identity.pd, address_of(own.data()), own.size(), address_of(own.data()), kAccessLocalWrite).value();
    const Sge first{.address = address_of(own.data()), .length = 100, .lkey = region->key};
    const Sge second{.address = address_of(&own[1'000]), .length = kBytes, .lkey = region->key};
    wqe = post({first, second}, WorkOpcode::kRdmaRead);
    message = {.wqe = wqe, .packets = 1, .offset = kOffset, .by_reference = kBytes, .kind = MessageKind::kRead};
  }
  // A response that refers to so many bytes of theirs. True: it is used.
  bool respond(std::uint32_t bytes = kBytes, std::uint64_t key = kPeerKey) {
    const Slice slice{theirs.data(), bytes};
    const Slice made = buffer.make(key, {&slice, 1}).front();
    wire::Packet packet;
    packet.payload = {static_cast<const std::byte*>(made.data), made.size};
    return references().fetch_response(packet, message, fault);
  }
  [[nodiscard]] std::uint64_t drops(DropReason reason) const { return statistics.get(reason); }

  std::vector<std::byte> own = std::vector<std::byte>(30'000), theirs = std::vector<std::byte>(30'000);
  MemoryRegion* region = nullptr;
  std::uint64_t wqe = 0;
  Message message;
  ReferenceBuffer buffer;
};

TEST(LocalReferences, AResponsesDataIsCopiedToItsPlace) {
  Reader reader;
  EXPECT_TRUE(reader.respond());
  EXPECT_EQ(std::memcmp(&reader.own[50], &reader.theirs[0], 50), 0);
  EXPECT_EQ(std::memcmp(&reader.own[1'000], &reader.theirs[50], Reader::kBytes - 50), 0);
  for (const std::size_t beside : {std::size_t{49}, std::size_t{100}, std::size_t{999}, std::size_t{20'950}})
    EXPECT_EQ(reader.own[beside], std::byte{0}) << beside;
  EXPECT_EQ(reader.count(Counter::kFetches), 1U);
  EXPECT_EQ(reader.count(Counter::kFetchedBytes), Reader::kBytes);
  EXPECT_FALSE(reader.fault.is_set());
}

TEST(LocalReferences, AResponseThatIsNotThePeersIsDropped) {
  const auto dropped = [](auto&& change, std::uint32_t bytes = Reader::kBytes, std::uint64_t key = kPeerKey) {
    Reader reader;
    change(reader);
    const bool used = reader.respond(bytes, key);
    return !used && reader.drops(DropReason::kBadDescription) == 1 && reader.process.asked == 0 &&
           !reader.fault.is_set();
  };
  const auto nothing = [](Reader&) {};
  EXPECT_FALSE(dropped(nothing));
  EXPECT_TRUE(dropped(nothing, Reader::kBytes, kPeerKey + 1)) << "a wrong key";
  EXPECT_TRUE(dropped(nothing, Reader::kBytes - 1)) << "another length than was asked for";
  EXPECT_TRUE(dropped(nothing, Reader::kBytes + 1));
  EXPECT_TRUE(dropped([](Reader& reader) { reader.path.fetches = false; })) << "its memory cannot be read";
  EXPECT_TRUE(dropped([](Reader& reader) { reader.identity.local = nullptr; }));
}

TEST(LocalReferences, AResponseThatIsNoReferenceIsDropped) {
  Reader reader;
  wire::Packet packet;
  packet.payload = {reader.theirs.data(), 100};
  EXPECT_FALSE(reader.references().fetch_response(packet, reader.message, reader.fault));
  EXPECT_EQ(reader.drops(DropReason::kBadDescription), 1U);
}

TEST(LocalReferences, AResponseToMemoryThatIsNoLongerOursFails) {
  Reader reader;
  ASSERT_TRUE(reader.memory.remove(reader.region).ok());
  EXPECT_FALSE(reader.respond());
  EXPECT_EQ(reader.drops(DropReason::kFault), 1U);
  EXPECT_EQ(reader.fault.due(reader.wqe), CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(reader.process.asked, 0);
}

TEST(LocalReferences, AResponseToMemoryThatMayOnlyBeReadFails) {
  Reader reader;
  ASSERT_TRUE(reader.memory.change(reader.region, memory::kChangeAccess, MemoryRegion{}).ok());
  EXPECT_FALSE(reader.respond());
  EXPECT_EQ(reader.fault.due(reader.wqe), CompletionStatus::kLocalProtectionError);
  EXPECT_EQ(reader.process.asked, 0);
}

TEST(LocalReferences, OfAPeerThatIsGoneAResponseMayComeAgain) {
  Reader reader;
  reader.process.result = FetchResult::kGone;
  EXPECT_FALSE(reader.respond());
  EXPECT_EQ(reader.drops(DropReason::kFetchFailed), 1U);
  EXPECT_EQ(reader.count(Counter::kFetchFaults), 0U);
  EXPECT_EQ(reader.count(Counter::kFetches), 0U);
  EXPECT_FALSE(reader.fault.is_set());
}

TEST(LocalReferences, MemoryThatThePeerItselfCannotReadIsItsError) {
  Reader reader;
  reader.process.result = FetchResult::kFault;
  EXPECT_FALSE(reader.respond());
  EXPECT_EQ(reader.drops(DropReason::kFetchFailed), 1U);
  EXPECT_EQ(reader.count(Counter::kFetchFaults), 1U);
  EXPECT_EQ(reader.fault.due(reader.wqe), CompletionStatus::kRemoteOperationError);
}

// --- memory that the program takes away ---

struct Pages {
  static constexpr std::size_t kSize = 65'536;
  Pages() { EXPECT_NE(at, MAP_FAILED); }
  ~Pages() { ::munmap(at, kSize); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void protect(int access) const { ASSERT_EQ(::mprotect(at, kSize, access), 0); }

  void* at = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

TEST(LocalReferences, AFaultInOurMemoryIsOurError) {
  test::survive_faults();
  const Pages pages;
  Reader reader;
  MemoryRegion to;
  to.iova = address_of(reader.own.data());
  to.address = address_of(pages.at);
  to.length = reader.own.size();
  ASSERT_TRUE(reader.memory.change(reader.region, memory::kChangeTranslation, to).ok());
  pages.protect(PROT_READ);
  reader.process.result = FetchResult::kFault;
  EXPECT_FALSE(reader.respond());
  EXPECT_EQ(reader.count(Counter::kFetchFaults), 1U);
  EXPECT_EQ(reader.fault.due(reader.wqe), CompletionStatus::kLocalProtectionError);
}

// The peer could not fetch: is our memory gone?
TEST(LocalReferences, MemoryThatIsUnmappedIsNotThere) {
  test::survive_faults();
  const Pages pages;
  Sender sender;
  MemoryRegion* const region =
      sender.memory.add(sender.identity.pd, address_of(pages.at), Pages::kSize, address_of(pages.at), 0).value();
  sender.post(std::vector<Sge>{{.address = address_of(pages.at), .length = Pages::kSize, .lkey = region->key}});
  const Message message = sender.next_packet();
  ASSERT_EQ(message.by_reference, Pages::kSize);
  EXPECT_FALSE(sender.memory.careful());
  EXPECT_TRUE(sender.references().are_there(message));
  EXPECT_TRUE(sender.memory.careful()) << "from now on memory is looked at before a packet leaves";
  pages.protect(PROT_NONE);
  EXPECT_FALSE(sender.references().are_there(message));
}

TEST(LocalReferences, MemoryThatIsNoLongerRegisteredIsNotThere) {
  Sender sender;
  std::vector<std::byte> data(kThreshold);
  MemoryRegion* const region =
      sender.memory.add(sender.identity.pd, address_of(data.data()), data.size(), address_of(data.data()), 0).value();
  sender.post(std::vector<Sge>{{.address = address_of(data.data()), .length = kThreshold, .lkey = region->key}});
  const Message message = sender.next_packet();
  EXPECT_TRUE(sender.references().are_there(message));
  ASSERT_TRUE(sender.memory.remove(region).ok());
  EXPECT_FALSE(sender.references().are_there(message));
}

}  // namespace
}  // namespace brdma::qp
