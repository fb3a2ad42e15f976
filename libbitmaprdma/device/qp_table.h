// device/qp_table.h - from QPN to queue pair in one array access.
//   QPN, 24 bits:  index << slot_bits | slot      slot: which socket the peer's packets reach (EngineConfig)
// Indices start at a random number and are used in order, so that a packet for a queue pair that is gone finds none for
// a long time. The array's size is a power of two above the number of queue pairs; an index whose place is taken is
// passed over. Index 0 is never given.
// Limits: queue_pairs_max().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/random.h"
#include "qp/queue_pair.h"

namespace brdma::device {

inline constexpr std::uint32_t kMulticastQpn = 0xFF'FFFF;  // IBTA 10.5.2.1; no queue pair's own

class QpTable {
 public:
  QpTable(std::uint32_t slot, std::uint32_t slot_bits, Random random);

  // A number that is free now; none where the table is full. The caller puts a queue pair of that number in with add().
  [[nodiscard]] std::optional<std::uint32_t> allocate();
  QueuePair* add(std::unique_ptr<QueuePair> qp);
  void remove(QueuePair* qp);  // and destroys it
  [[nodiscard]] QueuePair* find(std::uint32_t qpn) const {
    QueuePair* qp = places_[(qpn >> slot_bits_) & mask_].get();
    return qp != nullptr && qp->identity().qpn == qpn ? qp : nullptr;
  }
  // Whatever is in that number's place: without a look at it, which would cost a cache miss. Null: nothing.
  [[nodiscard]] QueuePair* guess(std::uint32_t qpn) const { return places_[(qpn >> slot_bits_) & mask_].get(); }
  template <class Function>
  void for_each(Function&& function) const {
    for (const auto& qp : places_) {
      if (qp != nullptr) function(qp.get());
    }
  }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] std::size_t queue_pairs_max() const { return (std::size_t{1} << index_bits_) / 2; }

 private:
  void grow();
  [[nodiscard]] std::unique_ptr<QueuePair>& place(std::uint32_t index) { return places_[index & mask_]; }

  std::uint32_t slot_, slot_bits_, index_bits_;
  std::uint32_t next_index_;
  std::uint32_t mask_;
  std::size_t count_ = 0;
  std::vector<std::unique_ptr<QueuePair>> places_;
};

}  // namespace brdma::device
