#include "registry/operation_table.h"

#include "base/check.h"

namespace brdma::registry {

std::uint8_t OperationTable::open(std::uint64_t first, std::uint32_t packets, bool last) {
  BRDMA_CHECK(!full() && packets >= 1 && packets <= 0xFFFF);
  operations_.push_back(
      {.first = first, .number = next_, .last = last, .packets = static_cast<std::uint16_t>(packets), .arrived = 0});
  return next_++;
}

SentOperation* OperationTable::at(std::uint8_t number) {
  if (operations_.empty()) return nullptr;
  const auto place = static_cast<std::uint8_t>(number - operations_.front().number);
  return place < operations_.size() ? &operations_[place] : nullptr;
}

std::optional<SentOperation> OperationTable::find(std::uint8_t number) const {
  if (operations_.empty()) return std::nullopt;
  const auto place = static_cast<std::uint8_t>(number - operations_[0].number);
  return place < operations_.size() ? std::optional{operations_[place]} : std::nullopt;
}

bool OperationTable::arrived(std::uint8_t number) {
  SentOperation* const operation = at(number);
  BRDMA_CHECK(operation != nullptr && operation->arrived < operation->packets);
  return ++operation->arrived == operation->packets;
}

void OperationTable::not_arrived(std::uint8_t number) {
  SentOperation* const operation = at(number);
  BRDMA_CHECK(operation != nullptr && operation->arrived > 0);
  --operation->arrived;
}

void OperationTable::note_started_late(std::uint8_t number) {
  SentOperation* const operation = at(number);
  BRDMA_CHECK(operation != nullptr);
  operation->started_late = any_started_late_ = true;
}

std::size_t OperationTable::retire_before(std::uint64_t base) {
  std::size_t retired = 0;
  while (!operations_.empty() && operations_.front().end() <= base) {
    operations_.pop_front();
    ++retired;
  }
  return retired;
}

void OperationTable::restart() {
  clear();
  next_ = 0;
}

}  // namespace brdma::registry
