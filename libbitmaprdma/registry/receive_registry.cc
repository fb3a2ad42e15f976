#include "registry/receive_registry.h"

#include "base/check.h"

namespace brdma::registry {

bool ReceiveRegistry::begin(const OperationStart& start) {
  if (slots_.empty()) slots_.assign(8, kNone);
  while (slots_[place(start.number)] != kNone) {
    if (operations_[slots_[place(start.number)]].start.number == start.number) return false;
    grow();
  }
  std::uint16_t index = kNone;
  if (free_.empty()) {
    index = static_cast<std::uint16_t>(operations_.size());
    operations_.emplace_back(start);
  } else {
    index = free_.back();
    free_.pop_back();
    operations_[index] = Operation{start};
  }
  slots_[place(start.number)] = index;
  ++count_;
  if (start.packets == 1) complete(start.number);
  return true;
}

// Numbers are 8 bits: at 256 places no two of them share one.
void ReceiveRegistry::grow() {
  BRDMA_CHECK(slots_.size() < kOperationsMax);
  const std::vector<std::uint16_t> before = std::move(slots_);
  slots_.assign(before.size() * 2, kNone);
  for (const std::uint16_t index : before) {
    if (index != kNone) slots_[place(operations_[index].start.number)] = index;
  }
}

const Operation* ReceiveRegistry::find(std::uint8_t number) const {
  if (count_ == 0) return nullptr;
  const std::uint16_t index = slots_[place(number)];
  return index != kNone && operations_[index].start.number == number ? &operations_[index] : nullptr;
}

Operation* ReceiveRegistry::at(std::uint8_t number) {
  if (count_ == 0) return nullptr;
  const std::uint16_t index = slots_[place(number)];
  return index != kNone && operations_[index].start.number == number ? &operations_[index] : nullptr;
}

Match ReceiveRegistry::judge(const Operation& operation, std::uint64_t address, std::uint16_t packets,
                             std::size_t& bit) const {
  const OperationStart& start = operation.start;
  const std::uint64_t offset = address - start.address;
  const std::uint64_t place = offset >> start.packet_shift;
  if (packets != start.packets || place >= start.packets) return Match::kOutside;
  if (place << start.packet_shift != offset) return Match::kOutside;
  bit = static_cast<std::size_t>(place);
  return operation.mask.has(bit) ? Match::kDuplicate : Match::kNew;
}

Match ReceiveRegistry::look(std::uint8_t number, std::uint64_t address, std::uint16_t packets) const {
  const Operation* const operation = find(number);
  if (operation == nullptr) return Match::kNone;
  std::size_t bit = 0;
  return judge(*operation, address, packets, bit);
}

Match ReceiveRegistry::receive(std::uint8_t number, std::uint64_t address, std::uint16_t packets) {
  Operation* const operation = at(number);
  return operation == nullptr ? Match::kNone : enter(*operation, address, packets);
}

Match ReceiveRegistry::enter(Operation& operation, std::uint64_t address, std::uint16_t packets) {
  std::size_t bit = 0;
  const Match match = judge(operation, address, packets, bit);
  if (match != Match::kNew || operation.mask.set(bit) != OperationMask::Change::kComplete) return match;
  complete(operation.start.number);
  return Match::kComplete;
}

ReceiveRegistry::Executed ReceiveRegistry::execute(std::uint8_t number, std::uint64_t address, std::uint16_t packets) {
  Operation* const operation = at(number);
  if (operation == nullptr) return {};
  const OperationStart& start = operation->start;
  const Executed executed{.match = enter(*operation, address, packets),
                          .ended = (address - start.address) >> start.packet_shift == start.packets - 1u};
  if (executed.ended) vacate(number);
  return executed;
}

// In number order as far as possible; completions out of order are remembered.
void ReceiveRegistry::complete(std::uint8_t number) {
  if (static_cast<std::uint8_t>(number - next_) >= kOperationsMax / 2) return;  // a peer that counts differently
  complete_.set(number);
  while (complete_.test(next_)) {
    complete_.reset(next_);
    ++next_;
  }
}

void ReceiveRegistry::release(std::uint8_t number) {
  if (find(number) != nullptr) vacate(number);
}

void ReceiveRegistry::vacate(std::uint8_t number) {
  std::uint16_t& slot = slots_[place(number)];
  free_.push_back(slot);
  slot = kNone;
  --count_;
}

void ReceiveRegistry::clear() {
  slots_.clear();
  operations_.clear();
  free_.clear();
  count_ = 0;
  next_ = 0;
  complete_.reset();
}

ReceiveRegistry::Completed ReceiveRegistry::completed() const {
  Completed result{next_, 0};
  for (std::uint8_t i = 0; i < 8; ++i) {
    if (complete_.test(static_cast<std::uint8_t>(next_ + 1 + i))) {
      result.beyond = static_cast<std::uint8_t>(result.beyond | (0x80u >> i));
    }
  }
  return result;
}

}  // namespace brdma::registry
