#include "bitmap/arrival_bits.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace brdma::bitmap {
namespace {

constexpr std::size_t kPartialRunsKept = 16;  // partial runs that an empty window keeps room for

WindowShape in_runs(WindowShape shape) {
  const std::uint32_t g = shape.granularity;
  shape.base = std::max(shape.base / g, 1u);
  shape.extension = std::max(shape.extension / g, 1u);
  shape.segment = std::max(shape.segment / g, 1u);
  return shape;
}

}  // namespace

ArrivalBits::ArrivalBits(const WindowShape& shape, SegmentPool& pool)
    : shift_(static_cast<unsigned>(std::countr_zero(shape.granularity))), bits_(in_runs(shape), pool) {
  BRDMA_CHECK(std::has_single_bit(shape.granularity) && shape.granularity <= kGranularityMax);
}

std::size_t ArrivalBits::index_of(std::uint32_t run) const {
  const auto before = [this](const PartialRun& record, std::uint32_t wanted) {
    return distance(Psn{record.run << shift_}, Psn{wanted << shift_}) < 0;
  };
  return static_cast<std::size_t>(std::lower_bound(partial().begin(), partial().end(), run, before) -
                                  partial().begin());
}

std::uint64_t ArrivalBits::arrived_of(std::uint32_t run) const {
  if (bits_.test(place(run))) return whole_run();
  const std::size_t index = partial().empty() ? 0 : index_of(run);
  return has_record(index, run) ? partial()[index].arrived : 0;
}

bool ArrivalBits::test(Psn psn) const {
  if (shift_ == 0) return bits_.test(psn);
  return (arrived_of(run_of(psn)) >> in_run(psn) & 1) != 0;
}

bool ArrivalBits::can_set(Psn psn, std::uint32_t count) const {
  if (shift_ == 0 || partial().size() + 2 <= kPartialRunsMax) return true;  // a range has two ends
  const std::uint32_t first = run_of(psn), last = run_of(psn + (count - 1));
  return first == last && has_record(index_of(first), first);
}

std::uint32_t ArrivalBits::set(Psn first, Psn base, Psn psn, std::uint32_t count) {
  if (shift_ == 0) return bits_.set_range(first, psn, count);
  if (count == 0) return 0;
  bits_.extend(place(run_of(first)), place(run_of(psn + (count - 1))));  // before any of its bits is looked at
  std::uint32_t fresh = 0;
  while (count > 0) {
    const std::uint32_t here = std::min(count, granularity() - in_run(psn));
    const std::uint64_t mask = (whole_run() >> (granularity() - here)) << in_run(psn);
    fresh += set_in_run(first, base, run_of(psn), mask);
    psn = psn + here;
    count -= here;
  }
  return fresh;
}

std::uint32_t ArrivalBits::set_in_run(Psn first, Psn base, std::uint32_t run, std::uint64_t mask) {
  const std::uint64_t before = arrived_of(run);
  if ((mask & ~before) == 0) return 0;
  const std::uint64_t arrived = before | mask;
  // PSNs before the base count as arrived.
  const std::uint64_t done = run == run_of(base) ? (std::uint64_t{1} << in_run(base)) - 1 : 0;
  const std::size_t index = index_of(run);
  const bool recorded = has_record(index, run);
  if ((arrived | done) == whole_run()) {
    bits_.set(place(run_of(first)), place(run));
    if (recorded) made().erase(made().begin() + static_cast<std::ptrdiff_t>(index));
  } else if (recorded) {
    made()[index].arrived = arrived;
  } else {
    BRDMA_CHECK(partial().size() < kPartialRunsMax);
    made().insert(made().begin() + static_cast<std::ptrdiff_t>(index), PartialRun{run, arrived});
  }
  return static_cast<std::uint32_t>(std::popcount(mask & ~before));
}

// May need one more record than set() grants; PSNs are rarely taken back.
void ArrivalBits::clear(Psn psn) {
  if (shift_ == 0) return bits_.clear(psn);
  const std::uint32_t run = run_of(psn);
  const std::uint64_t left = arrived_of(run) & ~(std::uint64_t{1} << in_run(psn));
  const std::size_t index = index_of(run);
  bits_.clear(place(run));
  if (!has_record(index, run)) {
    if (left != 0) made().insert(made().begin() + static_cast<std::ptrdiff_t>(index), PartialRun{run, left});
  } else if (left != 0) {
    made()[index].arrived = left;
  } else {
    made().erase(made().begin() + static_cast<std::ptrdiff_t>(index));
  }
}

std::uint32_t ArrivalBits::find_set(Psn psn, std::uint32_t count) const {
  if (shift_ == 0) return bits_.find_set(psn, count);
  for (std::uint32_t offset = 0; offset < count;) {
    const Psn here = psn + offset;
    const std::uint64_t rest = arrived_of(run_of(here)) >> in_run(here);
    if (rest != 0) return std::min(count, offset + static_cast<std::uint32_t>(std::countr_zero(rest)));
    offset += granularity() - in_run(here);
  }
  return count;
}

std::uint32_t ArrivalBits::find_unset(Psn psn, std::uint32_t count) const {
  if (shift_ == 0) return bits_.find_unset(psn, count);
  for (std::uint32_t offset = 0; offset < count;) {
    const Psn here = psn + offset;
    const std::uint32_t left = granularity() - in_run(here);
    const auto ones = static_cast<std::uint32_t>(std::countr_one(arrived_of(run_of(here)) >> in_run(here)));
    if (ones < left) return std::min(count, offset + ones);
    offset += left;
  }
  return count;
}

std::uint32_t ArrivalBits::load(Psn psn) const {
  if (shift_ == 0) return static_cast<std::uint32_t>(bits_.load(psn));
  std::uint64_t word = 0;
  for (std::uint32_t offset = 0; offset < 32;) {
    const Psn here = psn + offset;
    word |= (arrived_of(run_of(here)) >> in_run(here)) << offset;
    offset += granularity() - in_run(here);
  }
  return static_cast<std::uint32_t>(word);
}

void ArrivalBits::leave(Psn from, Psn to, std::uint32_t held) {
  if (shift_ == 0) {
    bits_.clear_range(from, static_cast<std::uint32_t>(distance(to, from)));
    bits_.leave(from, to, held);
    return;
  }
  const auto runs = (run_of(to) - run_of(from)) & (Psn::kMask >> shift_);
  bits_.clear_range(place(run_of(from)), runs);
  bits_.leave(place(run_of(from)), place(run_of(to)), (held + in_run(to)) / granularity() + 1);
  drop_records_before(to);
}

void ArrivalBits::drop_records_before(Psn psn) {
  if (partial().empty()) return;
  const std::size_t kept = index_of(run_of(psn));
  made().erase(made().begin(), made().begin() + static_cast<std::ptrdiff_t>(kept));
}

void ArrivalBits::release(Psn first, std::uint32_t count) {
  const std::uint32_t runs = shift_ == 0 ? count : (count + in_run(first)) / granularity() + 1;
  bits_.release(place(run_of(first)), runs);
  PartialRuns* const partial = partial_.if_made();
  if (partial == nullptr) return;
  if (partial->list.capacity() > kPartialRunsKept) {
    partial->list = std::vector<PartialRun>{};
  } else {
    partial->list.clear();
  }
}

WindowUse ArrivalBits::use(const WindowShape& shape) const {
  WindowUse use = bits_.use(shape);
  use.bytes += partial_.allocated_bytes();
  return use;
}

}  // namespace brdma::bitmap
