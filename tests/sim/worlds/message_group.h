// sim/worlds/message_group.h - one receiver and one to three senders of messages: UC, UD, or RC with a shared receive
// queue or through memory windows; beside the connections of a random world, over the same faulty network. The
// immediate of each message names its sender and number, and its bytes follow from that. Checked at each receive's
// completion:
//   the receive was posted, and comes back once; the message was sent, is whole, and is no mixture of several
//   UC: those of a sender come in order, none twice      RC: likewise, and all of them
//   a WRITE with immediate has filled its place
// and at the end: no byte between the places and buffers has changed, nor one outside a window.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "sim/world.h"
#include "worlds/world_settings.h"

namespace brdma::test {

class MessageGroup {
 public:
  MessageGroup(sim::World& world, const GroupSettings& settings, sim::Host& receiver, std::vector<sim::Host*> senders);

  // Connects; messages are posted in bursts within `faults_last`.
  void begin(Duration faults_last);
  void progress();
  [[nodiscard]] bool done() const;
  // At the end: compares memory; then all objects are destroyed. `all_arrive`: the network lost nothing.
  void check_end(bool all_arrive);
  [[nodiscard]] const std::vector<std::string>& findings() const { return findings_; }
  [[nodiscard]] std::string state() const;
  [[nodiscard]] std::uint64_t received() const;

 private:
  struct Sender {
    sim::Host* host = nullptr;
    ProtectionDomain* pd = nullptr;
    CompletionQueue* cq = nullptr;
    QueuePair* qp = nullptr;
    QueuePair* peer = nullptr;  // the receiver's; senders of UD share one
    MemoryRegion* region = nullptr;
    MemoryRegion* window = nullptr;
    std::uint32_t window_key = 0;
    bool may_write = true;  // its window is bound
    AddressHandle address;
    std::vector<std::byte> bytes;  // of the messages in flight: one place each
    std::uint32_t allowed = 0, posted = 0, completed = 0;
    std::vector<std::uint8_t> received;  // by message, how often
    std::uint32_t next = 0;              // UC, RC: no earlier one may come
    bool failed = false;
  };
  [[nodiscard]] bool reliable() const { return settings_.type == QpType::kRc; }
  [[nodiscard]] bool is_write(std::size_t sender, std::uint32_t message) const;
  [[nodiscard]] std::uint32_t length_of(std::size_t sender, std::uint32_t message) const;
  // The last WRITE goes beyond its window. One of no bytes goes nowhere, and its key is not checked.
  [[nodiscard]] bool is_astray(std::size_t sender, std::uint32_t message) const;
  [[nodiscard]] std::byte byte_of(std::size_t sender, std::uint32_t message, std::size_t at) const;
  // In the receiver's memory: buffers of receives, then a place for each message's WRITE.
  [[nodiscard]] std::size_t place_bytes() const { return settings_.bytes_max + kGrh + kGuard; }
  [[nodiscard]] std::size_t buffer_at(std::size_t receive) const { return kGuard + receive * place_bytes(); }
  [[nodiscard]] std::size_t target_at(std::size_t sender, std::uint32_t message) const {
    return buffer_at(settings_.receives) + (sender * (settings_.messages + 1) + message) * place_bytes();
  }
  [[nodiscard]] std::size_t memory_bytes() const { return target_at(senders_.size(), 0) + kGuard; }

  void find(std::string what);
  QueuePair* make_qp(sim::Host& host, ProtectionDomain* pd, CompletionQueue* cq, bool receives);
  void connect(sim::Host& host, QueuePair* qp, const sim::Host& peer, const QueuePair* peer_qp, sim::Host& peer_host);
  void bind_window(Sender& sender, std::size_t number);
  void post(std::size_t number);
  void post_receive(std::uint32_t receive);
  void take_receives();
  void take(const Completion& completion);
  void take_sends(std::size_t number);
  void check_guards();
  [[nodiscard]] bool holds(std::size_t offset, std::size_t sender, std::uint32_t message) const;

  static constexpr std::size_t kGuard = 16, kGrh = 40;
  static constexpr std::uint32_t kQkey = 0x1111, kInFlight = 8;
  static constexpr std::byte kUntouched{0xA7};

  sim::World& world_;
  const GroupSettings& settings_;
  Random random_;
  sim::Host& receiver_;
  ProtectionDomain* pd_ = nullptr;
  CompletionQueue *cq_ = nullptr, *bind_cq_ = nullptr;
  SharedReceiveQueue* srq_ = nullptr;
  MemoryRegion* region_ = nullptr;
  std::uint32_t key_ = 0;
  std::vector<std::byte> memory_;
  std::vector<bool> posted_;  // by receive
  std::vector<Sender> senders_;
  std::vector<std::string> findings_;
};

}  // namespace brdma::test
