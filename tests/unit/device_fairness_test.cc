// Deficit round robin over the queue pairs of an engine: equal bytes, whatever the sizes of their messages.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "device/engine.h"
#include "wire/packet.h"

namespace brdma::test {
namespace {

// Queue pairs towards a peer that gives no answer (standard mode: nobody is asked, and 2^20 packets may be under way),
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

  QueuePair* add(std::uint32_t message_bytes, std::uint32_t messages) {
    QpCreate create;
    create.pd = pd_;
    create.send_cq = create.receive_cq = cq_;
    create.capabilities = {.send_wr_max = messages, .receive_wr_max = 1, .send_sge_max = 1, .receive_sge_max = 1};
    QueuePair* const qp = engine_->create_qp(create).value();
    QpAttributes to;
    to.path_mtu = PathMtu::k4096;
    to.destination_qpn = engine_->qp_num(qp);  // what the peer's number is does not matter: packets tell who sent
    to.local_address = IpAddress::v4(10, 0, 0, 1);
    to.peer_address = IpAddress::v4(10, 0, 0, 2);
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
  // Bytes by destination queue pair, of so many batches.
  std::map<std::uint32_t, std::uint64_t> send(std::size_t batches) {
    std::map<std::uint32_t, std::uint64_t> bytes;
    Transmit out;
    for (; batches > 0 && engine_->poll_transmit(*buffer_, out, now_); --batches) {
      const auto* const first = static_cast<const std::byte*>(out.slices[0].data);
      bytes[load_be32(first + 4) & 0xFF'FFFF] += out.bytes;
    }
    EXPECT_EQ(batches, 0u) << "somebody has run out of work";
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

// Who waits, waits for one batch of each: a largest batch leaves nothing of its turn. (Where a WRITE begins, a standard
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

}  // namespace
}  // namespace brdma::test
