#include "device/qp_table.h"

#include "base/check.h"

namespace brdma::device {
namespace {

constexpr std::uint32_t kQpnBits = 24;
constexpr std::size_t kPlacesAtFirst = 16;

}  // namespace

QpTable::QpTable(std::uint32_t slot, std::uint32_t slot_bits, SecretRandom random)
    : slot_bits_(slot_bits), index_bits_(kQpnBits - slot_bits), slots_{slot}, mask_(kPlacesAtFirst - 1) {
  BRDMA_CHECK(slot_bits <= 16 && slot < (1u << slot_bits));
  next_number_ = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << index_bits_));
  for (Round& round : rounds_)
    round = {static_cast<std::uint32_t>(random.next() >> 32) | 1, static_cast<std::uint32_t>(random.next() >> 32)};
  places_.resize(kPlacesAtFirst);
}

void QpTable::add_slot(std::uint32_t slot) {
  BRDMA_CHECK(slot < (1u << slot_bits_));
  order_.resize(std::size_t{1} << slot_bits_);
  order_[slot] = static_cast<std::uint16_t>(slots_.size());
  slots_.push_back(slot);
}

std::optional<std::uint32_t> QpTable::allocate() {
  if (count_ >= queue_pairs_max()) return std::nullopt;
  if (count_ >= places_.size() / 2) grow();
  const std::uint32_t index_mask = (1u << index_bits_) - 1;
  while (true) {  // at most half of the places are taken
    const std::uint32_t number = next_number_++;
    if (next_number_ >> index_bits_ == slots_.size()) next_number_ = 0;
    const std::uint32_t index = shuffled(number & index_mask);
    const std::uint32_t qpn = index << slot_bits_ | slots_[number >> index_bits_];
    if (index != 0 && qpn != kMulticastQpn && place(qpn) == nullptr) return qpn;
  }
}

// One to one in the numbers of index_bits_ bits: each step is invertible.
std::uint32_t QpTable::shuffled(std::uint32_t number) const {
  const std::uint32_t mask = (1u << index_bits_) - 1;
  for (const Round& round : rounds_) {
    number = (number * round.factor + round.addend) & mask;
    number ^= number >> (index_bits_ + 1) / 2;
  }
  return number;
}

QueuePair* QpTable::add(std::unique_ptr<QueuePair> qp) {
  auto& at = place(qp->identity().qpn);
  BRDMA_CHECK(at == nullptr);
  at = std::move(qp);
  ++count_;
  return at.get();
}

void QpTable::remove(QueuePair* qp) {
  auto& at = place(qp->identity().qpn);
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
    if (qp != nullptr) place(qp->identity().qpn) = std::move(qp);
  }
}

}  // namespace brdma::device
