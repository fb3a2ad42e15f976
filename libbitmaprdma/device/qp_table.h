// device/qp_table.h - from QPN to queue pair in one array access.
//   QPN, 24 bits:  index << slot_bits | slot      slot: which socket the peer's packets reach (EngineConfig)
// A table begins with one slot and may get more. Numbers are used in a random order, slot by slot: some of them do not
// reveal the next. A packet for a destroyed queue pair finds none for a long time, because all other numbers come
// first. The array's size is a power of two above the number of queue pairs; a number whose place is taken is skipped.
// Index 0 is never given.
// Limits: queue_pairs_max(), half of all numbers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/secret_random.h"
#include "qp/state/queue_pair.h"

namespace brdma::device {

inline constexpr std::uint32_t kMulticastQpn = 0xFF'FFFF;  // IBTA 10.5.2.1; no queue pair's own

class QpTable {
 public:
  QpTable(std::uint32_t slot, std::uint32_t slot_bits, SecretRandom random);

  // Adds the numbers of this slot. Not a slot that it has.
  void add_slot(std::uint32_t slot);
  [[nodiscard]] const std::vector<std::uint32_t>& slots() const { return slots_; }
  // A free number; none where the table is full. The caller inserts its queue pair with add().
  [[nodiscard]] std::optional<std::uint32_t> allocate();
  QueuePair* add(std::unique_ptr<QueuePair> qp);
  void remove(QueuePair* qp);  // and destroys it
  [[nodiscard]] QueuePair* find(std::uint32_t qpn) const {
    QueuePair* qp = places_[number_of(qpn) & mask_].get();
    return qp != nullptr && qp->identity().qpn == qpn ? qp : nullptr;
  }
  // The queue pair in that number's place, unchecked: checking would cost a cache miss. Null: none.
  [[nodiscard]] QueuePair* guess(std::uint32_t qpn) const { return places_[number_of(qpn) & mask_].get(); }
  template <class Function>
  void for_each(Function&& function) const {
    for (const auto& qp : places_) {
      if (qp != nullptr) function(qp.get());
    }
  }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t queue_pairs_max() const { return (slots_.size() << index_bits_) / 2; }

 private:
  void grow();
  [[nodiscard]] std::uint32_t shuffled(std::uint32_t number) const;
  // Slots are numbered in the order of their addition: that number, before the index. Of an unknown slot: any.
  [[nodiscard]] std::uint32_t number_of(std::uint32_t qpn) const {
    const std::uint32_t index = qpn >> slot_bits_;
    if (order_.empty()) [[likely]]
      return index;
    return std::uint32_t{order_[qpn & ((1u << slot_bits_) - 1)]} << index_bits_ | index;
  }
  [[nodiscard]] std::unique_ptr<QueuePair>& place(std::uint32_t qpn) { return places_[number_of(qpn) & mask_]; }

  std::uint32_t slot_bits_, index_bits_;
  std::vector<std::uint32_t> slots_;
  std::vector<std::uint16_t> order_;  // of each slot its place in slots_; empty while there is one
  std::uint32_t next_number_;
  struct Round {
    std::uint32_t factor, addend;
  };
  std::array<Round, 4> rounds_;  // of shuffled()
  std::uint32_t mask_;
  std::size_t count_ = 0;
  std::vector<std::unique_ptr<QueuePair>> places_;
};

}  // namespace brdma::device
