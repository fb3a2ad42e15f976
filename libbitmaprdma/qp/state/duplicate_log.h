// qp/state/duplicate_log.h - the last duplicates received by an engine, requests and READ responses (design BR-4
// and BR-42): PSN, time, queue pair, path. A fixed number of records, the oldest overwritten; counts are elsewhere
// (duplicate_request, per queue pair too).
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "base/psn.h"
#include "base/units.h"

namespace brdma::qp {

struct Duplicate {
  Instant arrived;
  std::uint32_t qpn = 0;
  Psn psn;
  std::uint8_t path = 0;
  bool before_base = false;  // of an executed packet; else of one held for in-order execution
  bool response = false;     // to a READ or atomic of ours; else a request of the peer
};

class DuplicateLog {
 public:
  static constexpr std::size_t kRecords = 64;

  void record(const Duplicate& duplicate) { records_[seen_++ % kRecords] = duplicate; }
  [[nodiscard]] std::uint64_t seen() const { return seen_; }  // ever
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(std::min<std::uint64_t>(seen_, kRecords)); }
  // Record 0 is the newest.
  [[nodiscard]] const Duplicate& operator[](std::size_t i) const { return records_[(seen_ - 1 - i) % kRecords]; }

 private:
  std::array<Duplicate, kRecords> records_{};
  std::uint64_t seen_ = 0;
};

}  // namespace brdma::qp
