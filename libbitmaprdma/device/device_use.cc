#include "device/device_use.h"

#include <limits>

namespace brdma {
namespace {

std::uint64_t get(const std::uint64_t& word) { return __atomic_load_n(&word, __ATOMIC_SEQ_CST); }

std::uint64_t add(std::uint64_t a, std::uint64_t b) {
  return b > std::numeric_limits<std::uint64_t>::max() - a ? std::numeric_limits<std::uint64_t>::max() : a + b;
}

}  // namespace

DeviceUse::DeviceUse(UseTable& table, std::size_t row)
    : table_(&table), row_(row % table.rows.size()), device_(get(table.rows[row_].device)) {}

void DeviceUse::set_queue_pairs(std::uint64_t queue_pairs) {
  if (table_ != nullptr) __atomic_store_n(&table_->rows[row_].queue_pairs, queue_pairs, __ATOMIC_SEQ_CST);
}

DeviceUse::Sum DeviceUse::of_others() const {
  Sum sum;
  if (table_ == nullptr) return sum;
  for (std::size_t i = 0; i < table_->rows_used(); ++i) {
    const UseRow& row = table_->rows[i];
    if (i == row_ || get(row.device) != device_) continue;
    sum.queue_pairs = add(sum.queue_pairs, get(row.queue_pairs));
    sum.state_bytes = add(sum.state_bytes, get(row.state_bytes));
  }
  return sum;
}

}  // namespace brdma
