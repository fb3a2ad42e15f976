#include "bitmap/receive_window.h"

#include <algorithm>
#include <bit>

#include "base/bit_order.h"
#include "base/bytes.h"
#include "base/check.h"

namespace brdma::bitmap {
ReceiveWindow::ReceiveWindow(Psn base, const WindowShape& shape, SegmentPool& pool)
    : base_(base), highest_(base - 1), anchor_(base), shape_(shape), bits_(shape, pool) {
  BRDMA_CHECK(shape.window >= 1 && shape.window <= kWindowMax);
  BRDMA_CHECK(std::has_single_bit(shape.slide_step) && shape.slide_step <= shape.window);
}

Arrival ReceiveWindow::receive(Psn psn) {
  const Arrival arrival = classify(psn);
  if (arrival != Arrival::kNew) return arrival;
  bits_.set(base_ - lag(), base_, psn, 1);
  if (distance(psn, highest_) > 0) highest_ = psn;
  return Arrival::kNew;
}

std::uint32_t ReceiveWindow::receive_run(Psn first, std::uint32_t count) {
  const std::int64_t begin = std::max<std::int64_t>(0, distance(first, base_));
  const std::int64_t end = std::min<std::int64_t>(open(), std::int64_t{distance(first, base_)} + count);
  if (begin >= end) return 0;
  const Psn last = base_ + static_cast<std::uint32_t>(end - 1);
  if (distance(last, highest_) > 0) highest_ = last;
  return bits_.set(base_ - lag(), base_, base_ + static_cast<std::uint32_t>(begin),
                   static_cast<std::uint32_t>(end - begin));
}

void ReceiveWindow::forget(Psn psn) {
  BRDMA_CHECK(has(psn) && psn != highest_);
  bits_.clear(psn);
}

void ReceiveWindow::advance_one() {
  BRDMA_CHECK(has(base_));
  step_over(1);
}

std::uint32_t ReceiveWindow::advance() {
  if (empty()) return 0;
  const std::uint32_t run = bits_.find_unset(base_, held());
  step_over(run);
  return run;
}

void ReceiveWindow::advance_over_held(std::uint32_t count) {
  const std::uint32_t here = std::min(count, held());
  step_over(here);
  if (count > here) begin_at(base_ + (count - here));
}

// The base moves over `count` PSNs, at most those held. Memory behind it is given up in whole slide steps. Where
// nothing is left, the window starts again at the base.
void ReceiveWindow::step_over(std::uint32_t count) {
  const Psn slid = base_ - lag();
  const std::uint32_t stretch = held() + lag();
  base_ = base_ + count;
  if (empty()) {
    bits_.release(slid, stretch);
    anchor_ = base_;
    return;
  }
  const Psn now_slid = base_ - lag();
  if (now_slid != slid) bits_.leave(slid, now_slid, held() + lag());
}

ReceiveWindow::Hole ReceiveWindow::next_hole(Psn from) const {
  if (distance(from, base_) < 0) from = base_;
  const std::int32_t left = distance(highest_, from);  // highest() itself is set: no hole begins or ends beyond it
  if (left <= 0) return {};
  const auto count = static_cast<std::uint32_t>(left);
  const std::uint32_t offset = bits_.find_unset(from, count);
  if (offset == count) return {};
  const Psn start = from + offset;
  return {start, bits_.find_set(start, count - offset)};
}

ReceiveWindow::Hole ReceiveWindow::next_run(Psn from) const {
  if (distance(from, base_) < 0) from = base_;
  const std::int32_t left = distance(highest_, from) + 1;
  if (left <= 0) return {};
  const auto count = static_cast<std::uint32_t>(left);
  const std::uint32_t offset = bits_.find_set(from, count);
  if (offset == count) return {};
  const Psn start = from + offset;
  return {start, bits_.find_unset(start, count - offset)};
}

void ReceiveWindow::export_bits(std::uint32_t count, std::byte* out) const {
  const std::uint32_t meaningful = std::min(count, held());
  for (std::uint32_t offset = 0; offset < count; offset += 32, out += 4) {
    std::uint32_t word = 0;
    if (offset < meaningful) {
      word = bits_.load(base_ + offset);
      if (meaningful - offset < 32) word &= (1u << (meaningful - offset)) - 1;
    }
    store_be32(out, reverse_bits(word));
  }
}

}  // namespace brdma::bitmap
