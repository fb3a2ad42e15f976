// Deficit round robin over the queue pairs of an engine: equal bytes for any message sizes; and batches with packets of
// several queue pairs.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include "device/engine.h"
#include "qp/state/queue_pair.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace brdma::test {
namespace {

// Queue pairs towards a peer that sends no answer (standard mode: no negotiation, and 2^20 packets may be in flight),
// each with more WRITEs of its size than it gets to send.
class Fairness : public testing::Test {
 protected:
  static constexpr std::size_t kMemory = 1u << 20;

  Fairness() : memory_(kMemory) {
    config_.recovery.mode = RecoveryMode::kStandard;
    config_.recovery.standard_window_packets = 1u << 20;
    config_.recovery.window_packets = 1u << 16;
    config_.recovery.congestion.control = CongestionControl::kNone;
    config_.transfer.threshold_bytes = 0;  // large commands have turns of their own
    config_.segments_max = 64;
    engine_ = std::make_unique<Engine>(config_, statistics_, nullptr);
    pd_ = engine_->alloc_pd();
    cq_ = engine_->create_cq(64, nullptr).value();
    region_ = engine_->register_memory(pd_, address(), kMemory, address(), kAccessLocalWrite).value();
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_.data()); }

  struct Peer {
    std::uint8_t host = 2, traffic_class = 0;
    std::uint32_t slot = 0;
  };
  QueuePair* add(std::uint32_t message_bytes, std::uint32_t messages) { return add(message_bytes, messages, Peer{}); }
  QueuePair* add(std::uint32_t message_bytes, std::uint32_t messages, const Peer& peer) {
    QpCreate create;
    create.pd = pd_;
    create.send_cq = create.receive_cq = cq_;
    create.capabilities = {.send_wr_max = messages, .receive_wr_max = 1, .send_sge_max = 1, .receive_sge_max = 1};
    QueuePair* const qp = engine_->create_qp(create).value();
    QpAttributes to;
    to.path_mtu = PathMtu::k4096;
    to.destination_qpn = engine_->qp_num(qp) ^ peer.slot;  // any number, so that packets identify their sender
    to.traffic_class = peer.traffic_class;
    to.local_address = IpAddress::v4(10, 0, 0, 1);
    to.peer_address = IpAddress::v4(10, 0, 0, peer.host);
    for (const auto& [state, mask] :
         {std::pair{QpState::kInit, kQpAttrState | kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess},
          std::pair{QpState::kRtr, kQpAttrState | kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn |
                                       kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer},
          std::pair{QpState::kRts, kQpAttrState | kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn |
                                       kQpAttrMaxRdAtomic}}) {
      to.state = state;
      EXPECT_TRUE(engine_->modify_qp(qp, to, mask, now_).ok());
    }
    const Sge sge{address(), message_bytes, engine_->info(region_).lkey};
    SendRequest request;
    request.sges = {&sge, 1};
    request.opcode = WorkOpcode::kRdmaWrite;
    request.remote_address = 0x1000;
    for (std::uint32_t i = 0; i < messages; ++i) EXPECT_TRUE(engine_->post_send(qp, request, now_).ok());
    return qp;
  }
  // The packets of the next batch; none: there is none.
  std::vector<std::vector<std::byte>> batch() {
    std::vector<std::vector<std::byte>> packets;
    Transmit out;
    if (!engine_->poll_transmit(*buffer_, out, now_)) return packets;
    std::vector<std::byte> all;
    for (const Slice& slice : out.slices) {
      const auto* const data = static_cast<const std::byte*>(slice.data);
      all.insert(all.end(), data, data + slice.size);
    }
    for (auto at = all.begin(); at != all.end();) {
      const auto end = at + std::min<std::ptrdiff_t>(out.segment_bytes, all.end() - at);
      packets.emplace_back(at, end);
      at = end;
    }
    EXPECT_EQ(packets.size(), out.segments);
    return packets;
  }
  static std::uint32_t destination(const std::vector<std::byte>& packet) { return load_be24(&packet[5]); }
  // Packets of each batch until there is nothing left.
  std::vector<std::size_t> batches() {
    std::vector<std::size_t> sizes;
    for (auto packets = batch(); !packets.empty(); packets = batch()) sizes.push_back(packets.size());
    return sizes;
  }
  // Bytes by destination queue pair, of so many batches.
  std::map<std::uint32_t, std::uint64_t> send(std::size_t batches) {
    std::map<std::uint32_t, std::uint64_t> bytes;
    for (std::size_t i = 0; i < batches; ++i) {
      const auto packets = batch();
      EXPECT_FALSE(packets.empty()) << "somebody has run out of work";
      for (const auto& packet : packets) bytes[destination(packet)] += packet.size();
    }
    return bytes;
  }

  EngineConfig config_;
  Statistics statistics_;
  std::vector<std::byte> memory_;
  std::unique_ptr<TransmitBuffer> buffer_ = std::make_unique<TransmitBuffer>();
  std::unique_ptr<Engine> engine_;
  ProtectionDomain* pd_ = nullptr;
  CompletionQueue* cq_ = nullptr;
  MemoryRegion* region_ = nullptr;
  Instant now_ = Instant::from_ns(1'000'000);
};

TEST_F(Fairness, EqualBytesForMessagesOfAnySize) {
  std::vector<QueuePair*> pairs;
  for (const std::uint32_t size : {64u, 512u, 1024u, 4096u, 65536u, 1'000'000u}) {
    pairs.push_back(add(size, std::min(16'000u, 64'000'000 / size)));
  }
  const auto bytes = send(300);
  ASSERT_EQ(bytes.size(), pairs.size());
  std::uint64_t least = ~std::uint64_t{0}, most = 0;
  for (const auto& [qpn, sent] : bytes) least = std::min(least, sent), most = std::max(most, sent);
  EXPECT_GT(least, 300'000u);
  EXPECT_LE(most - least, 2 * 65'536u) << "a turn, and what a batch was longer";
}

// A queue pair waits for one batch of each other: a largest batch uses up its turn. (Where a WRITE begins, a standard
// peer's batches are short: its first packet is longer than the others.)
TEST_F(Fairness, ATurnOfLargeMessagesIsOneBatch) {
  for (int i = 0; i < 3; ++i) add(240 * 4096, 100);
  std::uint32_t last = 0;
  std::size_t full = 0;
  for (int batch = 0; batch < 200; ++batch) {
    const auto [qpn, bytes] = *send(1).begin();
    if (bytes < 60'000) continue;
    ++full;
    EXPECT_NE(qpn, last) << "batch " << batch;
    last = qpn;
  }
  EXPECT_GT(full, 150u);
}

TEST_F(Fairness, WhoRunsOutKeepsNothing) {
  QueuePair* const rare = add(64, 1);
  add(65536, 100);
  add(65536, 100);
  const auto bytes = send(60);
  EXPECT_LT(bytes.at(engine_->qp_num(rare)), 200u);
  for (const auto& [qpn, sent] : bytes) {
    if (qpn == engine_->qp_num(rare)) continue;
    EXPECT_GT(sent, 900'000u);
  }
}

using ::testing::ElementsAre;

// One system call for all of them, and each packet as if it had been sent alone.
TEST_F(Fairness, FewPacketsOfManyShareABatch) {
  constexpr std::uint32_t kPairs = 10, kEach = 3;
  std::vector<QueuePair*> pairs;
  for (std::uint32_t i = 0; i < kPairs; ++i) pairs.push_back(add(64, kEach));
  const auto packets = batch();
  ASSERT_EQ(packets.size(), kPairs * kEach);
  std::map<std::uint32_t, std::uint32_t> seen;
  std::uint16_t identification = 0;
  for (const auto& packet : packets) {
    ++seen[destination(packet)];
    const wire::IcrcPath path{IpAddress::v4(10, 0, 0, 1), IpAddress::v4(10, 0, 0, 2), config_.source_ports[0],
                              kRoceUdpPort, identification++};
    EXPECT_EQ(load_le32(&packet[packet.size() - 4]), wire::packet_icrc(path, packet));
  }
  for (QueuePair* const qp : pairs) {
    EXPECT_EQ(seen[engine_->qp_num(qp)], kEach);
    EXPECT_EQ(qp->statistics().get(QpCounter::kSentPackets), kEach);
  }
  EXPECT_TRUE(batch().empty());
}

TEST_F(Fairness, ABatchIsForOneSocketOfOnePeer) {
  for (int round = 0; round < 2; ++round) {
    add(64, 1);
    add(64, 1, {.host = 3});
    add(64, 1, {.slot = 1});
    add(64, 1, {.traffic_class = 8});
  }
  EXPECT_THAT(batches(), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1));
  for (int i = 0; i < 2; ++i) add(64, 1);
  for (int i = 0; i < 2; ++i) add(64, 1, {.slot = 1});
  EXPECT_THAT(batches(), ElementsAre(2, 2));
}

// One's own slots are on one socket, at one's own address.
TEST_F(Fairness, ABatchIsForAllSlotsOfOnesOwnSocket) {
  engine_->add_slot(config_.slot ^ 1);
  const auto two_of_each = [this](std::uint8_t host) {
    for (int round = 0; round < 2; ++round) {
      for (const std::uint32_t slot : {0u, 1u, 4u}) add(64, 1, {.host = host, .slot = slot});
    }
    return batches();
  };
  EXPECT_THAT(two_of_each(1), ElementsAre(2, 1, 2, 1));
  EXPECT_THAT(two_of_each(2), ElementsAre(1, 1, 1, 1, 1, 1)) << "another's";
}

// A longer packet begins a batch, a shorter one ends it; nobody is forgotten.
TEST_F(Fairness, PacketsOfABatchAreOfOneSize) {
  add(64, 2);
  add(1024, 2);
  add(64, 2);
  add(64, 1);
  EXPECT_THAT(batches(), ElementsAre(2, 3, 2));
}

// The driver's query before it lets posts wait for each other: counted for all that complete in one queue.
TEST_F(Fairness, PacketsAwaitedAreThoseOfTheCompletionQueue) {
  QueuePair* const one = add(64, 3);
  QueuePair* const other = add(64, 4);
  EXPECT_EQ(engine_->load(one).awaited, 0u);
  EXPECT_EQ(batches().size(), 1u);
  (void)engine_->next_timeout();
  EXPECT_EQ(engine_->load(one).awaited, 7u);
  EXPECT_EQ(engine_->load(other).awaited, 7u);
  EXPECT_TRUE(engine_->destroy_qp(other).ok());
  EXPECT_EQ(engine_->load(one).awaited, 3u);
}

}  // namespace
}  // namespace brdma::test
