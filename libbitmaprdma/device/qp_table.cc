#include "device/qp_table.h"

#include "base/check.h"

namespace brdma::device {
namespace {

constexpr std::uint32_t kQpnBits = 24;
constexpr std::size_t kPlacesAtFirst = 16;

}  // namespace

QpTable::QpTable(std::uint32_t slot, std::uint32_t slot_bits, Random random)
    : slot_(slot), slot_bits_(slot_bits), index_bits_(kQpnBits - slot_bits), mask_(kPlacesAtFirst - 1) {
  BRDMA_CHECK(slot_bits <= 16 && slot < (1u << slot_bits));
  next_index_ = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << index_bits_));
  places_.resize(kPlacesAtFirst);
}

std::optional<std::uint32_t> QpTable::allocate() {
  if (count_ >= queue_pairs_max()) return std::nullopt;
  if (count_ >= places_.size() / 2) grow();
  const std::uint32_t index_mask = (1u << index_bits_) - 1;
  while (true) {  // at most every second place is taken
    const std::uint32_t index = next_index_ & index_mask;
    next_index_ = (index + 1) & index_mask;
    const std::uint32_t qpn = index << slot_bits_ | slot_;
    if (index != 0 && qpn != kMulticastQpn && place(index) == nullptr) return qpn;
  }
}

QueuePair* QpTable::add(std::unique_ptr<QueuePair> qp) {
  auto& at = place(qp->identity().qpn >> slot_bits_);
  BRDMA_CHECK(at == nullptr);
  at = std::move(qp);
  ++count_;
  return at.get();
}

void QpTable::remove(QueuePair* qp) {
  auto& at = place(qp->identity().qpn >> slot_bits_);
  BRDMA_CHECK(at.get() == qp);
  at.reset();
  --count_;
}

// Two queue pairs with different places keep them: the new place has one more bit of the index.
void QpTable::grow() {
  std::vector<std::unique_ptr<QueuePair>> old = std::move(places_);
  places_.clear();
  places_.resize(old.size() * 2);
  mask_ = static_cast<std::uint32_t>(places_.size() - 1);
  for (auto& qp : old) {
    if (qp != nullptr) place(qp->identity().qpn >> slot_bits_) = std::move(qp);
  }
}

}  // namespace brdma::device
