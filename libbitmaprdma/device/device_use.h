// device/device_use.h - the limits shared by all programs of a device (recovery.qps_max,
// recovery.device_state_bytes_max). brdmad shares a table with all programs of a user that lease from it, a row for
// each lease. A program writes its own row and adds up the others of its device. brdmad writes the row's device, and
// clears the row when the lease ends, however the program died.
//
// A program that wants more writes it down first and adds up then: two that do so at once never pass a limit together,
// though both may be refused. Rows belong to other processes and may hold any value; a sum saturates at the largest
// number.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace brdma {

struct UseRow {
  std::uint64_t device = 0;  // 0: free; else a number that programs of one device share
  std::uint64_t queue_pairs = 0;
  std::uint64_t state_bytes = 0;
  std::uint64_t reserved = 0;
};
struct UseTable {
  std::uint64_t rows_end = 0;  // behind the last row ever used; written by brdmad
  std::array<UseRow, 8192> rows{};

  // Rows in use, at most the table's size.
  [[nodiscard]] std::size_t rows_used() const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(__atomic_load_n(&rows_end, __ATOMIC_RELAXED), rows.size()));
  }
};

class DeviceUse {
 public:
  DeviceUse() = default;  // the only program of its device
  // The table outlives it; row < UseTable::rows.size().
  DeviceUse(UseTable& table, std::size_t row);

  void set_queue_pairs(std::uint64_t queue_pairs);
  void set_state_bytes(std::uint64_t bytes) {
    if (table_ != nullptr) __atomic_store_n(&table_->rows[row_].state_bytes, bytes, __ATOMIC_RELAXED);
  }
  struct Sum {
    std::uint64_t queue_pairs = 0, state_bytes = 0;
  };
  [[nodiscard]] Sum of_others() const;

 private:
  UseTable* table_ = nullptr;
  std::size_t row_ = 0;
  std::uint64_t device_ = 0;
};

}  // namespace brdma
