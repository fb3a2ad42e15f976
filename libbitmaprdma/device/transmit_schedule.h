// device/transmit_schedule.h - whose turn it is to send: queue pairs with output (registry/command_queues.h), and the
// last batch that was given out.
//
// Deficit round robin: a turn is as many bytes as a batch of large messages has, however many batches make them. So
// queue pairs of small messages get as many bytes as those of large ones. A queue pair that sends more (by less than a
// batch) has less the next time; one that runs out of output gives up the rest of its turn.
#pragma once

#include <cstdint>
#include <utility>

#include "base/config.h"
#include "base/units.h"
#include "qp/state/queue_pair.h"
#include "registry/command_queues.h"

namespace brdma::device {

class TransmitSchedule {
 public:
  explicit TransmitSchedule(const EngineConfig& config)
      : ready_(config.transfer.regular_turns), turn_words_(turn_of(config)) {}

  void set_regular_turns(std::uint32_t regular_turns) { ready_.set_regular_turns(regular_turns); }
  // It may have something to send. `large`: inside a large command.
  void add(QueuePair* qp, bool large) { ready_.push_back(qp, large); }
  // The next one; null: none.
  [[nodiscard]] QueuePair* front() const { return ready_.front(); }
  template <class Predicate>
  [[nodiscard]] bool any_of(Predicate&& holds) const {
    return ready_.any_of(std::forward<Predicate>(holds));
  }
  // The queue pair ends.
  void forget(QueuePair* qp) {
    ready_.remove(qp);
    if (given_out_ == qp) given_out_ = nullptr;
  }

  // `qp`, the first of its class, is taken out for its turn. False: it has none yet, and is listed again.
  [[nodiscard]] bool begin_turn(QueuePair* qp, bool large) {
    ready_.remove(qp);
    if (qp->turn_left > 0) return true;
    const std::int32_t turn = turn_words_ * static_cast<std::int32_t>(turn_percent(*qp)) / 100;
    qp->turn_left = static_cast<std::int16_t>(qp->turn_left + turn);
    if (qp->turn_left > 0) [[likely]]
      return true;
    ready_.push_back(qp, large);  // its turns are shorter than others', and its last batch was longer
    return false;
  }
  // It put packets into the batch.
  void sent(QueuePair* qp, bool large) {
    ready_.turn_taken(large);
    if (qp->unreliable() != nullptr) [[unlikely]]
      given_out_ = qp;
  }
  // It sent so many bytes; `more`: it has more to send.
  void end_turn(QueuePair* qp, std::uint32_t bytes, bool large, bool more);

  // UC, UD: maker of the last batch, which may not have been sent yet. Null: none.
  [[nodiscard]] QueuePair* given_out() const { return given_out_; }
  QueuePair* take_given_out() { return std::exchange(given_out_, nullptr); }
  // When the last batch was made.
  [[nodiscard]] Instant batch_made() const { return batch_made_; }
  void set_batch_made(Instant now) { batch_made_ = now; }

 private:
  // Share of a turn among queue pairs.
  [[nodiscard]] static std::uint32_t turn_percent(const QueuePair& qp) {
    const congestion::ManagedDestination* const managed = qp.requester().managed();
    return managed == nullptr ? 100 : managed->weight_percent;
  }
  // In words of 4 bytes, of which every RoCE packet is a number (IBTA 9.2.1: pad): 16 bits hold two turns.
  static constexpr std::int32_t kWord = 4;
  // No longer than a batch of large messages at any path MTU (15, 31 or 60 packets fill it, and headers come to their
  // payload), so that one batch is one turn. A remainder would make a second turn, for which all others wait. Without
  // GSO a packet.
  static constexpr std::uint32_t kLargestPayload = 4096, kTurnBytesMax = 15 * kLargestPayload;
  [[nodiscard]] static std::int16_t turn_of(const EngineConfig& config);

  registry::CommandQueues<QueuePair> ready_;
  std::int16_t turn_words_;  // of a turn that nothing shortens
  QueuePair* given_out_ = nullptr;
  Instant batch_made_;
};

}  // namespace brdma::device
