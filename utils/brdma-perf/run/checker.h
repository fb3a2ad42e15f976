// run/checker.h - seals and checks messages, counts them, and estimates what that costs: one in 16 is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "run/loop.h"
#include "values/message.h"
#include "values/recording.h"

namespace brdma::perf {

class Checker {
 public:
  void seal_message(std::span<std::byte> message, std::uint64_t number, bool with_crc) {
    timed([&] { seal(message, number, with_crc); });
  }
  // A flaw is counted, and the first one described.
  void check_message(std::span<const std::byte> message, std::uint64_t number, bool whole, bool with_crc) {
    timed([&] {
      const Checked checked = check(message, number, whole, with_crc);
      ++totals_.messages;
      totals_.by_crc += checked.by_crc && checked.flaw == Flaw::kNone ? 1 : 0;
      if (checked.flaw != Flaw::kNone) flaw("message " + std::to_string(number) + " has " + flaw_name(checked.flaw));
    });
  }
  void checked_value() { ++totals_.messages; }
  void flaw(const std::string& text) {
    ++totals_.flaws;
    if (first_flaw_.empty()) first_flaw_ = text;
  }
  [[nodiscard]] const CheckTotals& totals() const { return totals_; }
  [[nodiscard]] const std::string& first_flaw() const { return first_flaw_; }

 private:
  static constexpr std::uint32_t kTimedOneIn = 16;
  template <class Function>
  void timed(Function f) {
    if (++calls_ % kTimedOneIn != 0) return f();
    const std::int64_t before = clock_ns();
    f();
    totals_.ns += static_cast<std::uint64_t>(clock_ns() - before) * kTimedOneIn;
  }
  std::uint32_t calls_ = 0;
  CheckTotals totals_;
  std::string first_flaw_;
};

}  // namespace brdma::perf
