// bitmap/arrival_bits.h - which PSNs have arrived, a bit for G of them (design BR-1, BR-3: granularity G).
//
// With G = 1 a bit is a PSN. With G > 1 a bit stands for a run of G consecutive PSNs (a run begins at a multiple of G).
// It is set when the whole run has arrived; PSNs before the window's base count as arrived. A partly arrived run has an
// exact record, a mask, so every question is answered exactly at any G. The price: the number of records is bounded
// (kPartialRunsMax), and a packet that would need one more is not taken (can_set).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/lazy.h"
#include "base/psn.h"
#include "base/vector_bytes.h"
#include "bitmap/segmented_bits.h"

namespace brdma::bitmap {

inline constexpr std::uint32_t kGranularityMax = 64;
inline constexpr std::size_t kPartialRunsMax = 1024;

class ArrivalBits {
 public:
  ArrivalBits(const WindowShape& shape, SegmentPool& pool);

  [[nodiscard]] bool test(Psn psn) const;
  // Is there room to set [psn, psn + count)?
  [[nodiscard]] bool can_set(Psn psn, std::uint32_t count) const;
  // Sets [psn, psn + count) and returns how many were unset before. `first`: where the kept range begins; `base`: all
  // PSNs before it have arrived.
  std::uint32_t set(Psn first, Psn base, Psn psn, std::uint32_t count);
  // A set PSN becomes unset.
  void clear(Psn psn);
  // Offset of the first set (unset) PSN in [psn, psn + count); `count` if none.
  [[nodiscard]] std::uint32_t find_set(Psn psn, std::uint32_t count) const;
  [[nodiscard]] std::uint32_t find_unset(Psn psn, std::uint32_t count) const;
  // 32 PSNs from `psn` on; bit 0 is `psn`.
  [[nodiscard]] std::uint32_t load(Psn psn) const;

  // The range began at `from` and now begins at `to`; `held` PSNs of it are left, at least one.
  void leave(Psn from, Psn to, std::uint32_t held);
  // Nothing is kept any more; the range began at `first` and had `count` PSNs.
  void release(Psn first, std::uint32_t count);

  [[nodiscard]] LengthChange take_length_change() { return bits_.take_length_change(); }
  [[nodiscard]] std::size_t partial_runs() const { return partial().size(); }
  [[nodiscard]] std::size_t allocated_bytes() const { return bits_.allocated_bytes() + partial_.allocated_bytes(); }
  [[nodiscard]] WindowUse use(const WindowShape& shape) const;

 private:
  struct PartialRun {
    std::uint32_t run = 0;
    std::uint64_t arrived = 0;  // bit i: PSN run * G + i
  };
  struct PartialRuns {
    std::vector<PartialRun> list;  // in order
    [[nodiscard]] std::size_t allocated_bytes() const { return vector_bytes(list); }
  };
  [[nodiscard]] const std::vector<PartialRun>& partial() const { return partial_->list; }
  [[nodiscard]] std::vector<PartialRun>& made() { return partial_.made().list; }
  [[nodiscard]] std::uint32_t run_of(Psn psn) const { return psn.value() >> shift_; }
  [[nodiscard]] std::uint32_t in_run(Psn psn) const { return psn.value() & (granularity() - 1); }
  [[nodiscard]] std::uint32_t granularity() const { return std::uint32_t{1} << shift_; }
  [[nodiscard]] std::uint64_t whole_run() const { return ~std::uint64_t{0} >> (64 - granularity()); }
  // Runs are kept by their numbers, as if those were PSNs. They wrap earlier; SegmentedBits is constructed for that.
  [[nodiscard]] static Psn place(std::uint32_t run) { return Psn{run}; }
  [[nodiscard]] std::uint64_t arrived_of(std::uint32_t run) const;
  [[nodiscard]] std::size_t index_of(std::uint32_t run) const;  // in partial(): the first that is not before `run`
  [[nodiscard]] bool has_record(std::size_t index, std::uint32_t run) const {
    return index < partial().size() && partial()[index].run == run;
  }
  std::uint32_t set_in_run(Psn first, Psn base, std::uint32_t run, std::uint64_t mask);
  void drop_records_before(Psn psn);

  unsigned shift_ = 0;  // log2 G
  SegmentedBits bits_;  // of PSNs, or of runs
  Lazy<PartialRuns> partial_;
};

}  // namespace brdma::bitmap
