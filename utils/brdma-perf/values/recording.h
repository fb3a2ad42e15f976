// values/recording.h - what a run writes down while it runs. Times are in ns; `at` counts from the run's start.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace brdma::perf {

// Of one message (latency) or flow (completion time).
struct Sample {
  std::int64_t at;     // of its completion
  std::uint64_t took;  // ns
  std::uint64_t bytes;
};

struct CheckTotals {
  std::uint64_t messages = 0;  // whose number and pages were checked
  std::uint64_t by_crc = 0;    // of these, all bytes too
  std::uint64_t flaws = 0;
  std::uint64_t ns = 0;  // what sealing and checking took
  void add(const CheckTotals& other) {
    messages += other.messages;
    by_crc += other.by_crc;
    flaws += other.flaws;
    ns += other.ns;
  }
};

class Recording {
 public:
  static constexpr std::size_t kSamplesMax = 4'000'000, kIntervalsMax = 200'000;

  explicit Recording(std::int64_t interval) : interval_(interval) {}

  // Messages complete. `at` never goes back.
  void complete(std::int64_t at, std::uint64_t messages, std::uint64_t bytes) {
    if (at - last_ > gap_) {
      gap_ = at - last_;
      gap_at_ = last_;
    }
    last_ = at;
    const std::size_t index = std::min(static_cast<std::size_t>(at / interval_), kIntervalsMax - 1);
    if (bytes_.size() <= index) {
      bytes_.resize(index + 1);
      messages_.resize(index + 1);
    }
    bytes_[index] += bytes;
    messages_[index] += messages;
  }
  void sample(const Sample& sample) { samples_.push_back(sample); }
  // No room for further samples: the run ends.
  [[nodiscard]] bool full() const { return samples_.size() >= kSamplesMax || bytes_.size() >= kIntervalsMax; }

  [[nodiscard]] std::int64_t interval() const { return interval_; }
  [[nodiscard]] const std::vector<std::uint64_t>& bytes() const { return bytes_; }  // of each interval
  [[nodiscard]] const std::vector<std::uint64_t>& messages() const { return messages_; }
  [[nodiscard]] const std::vector<Sample>& samples() const { return samples_; }
  // The longest time without a completion, and when it began.
  [[nodiscard]] std::int64_t longest_gap() const { return gap_; }
  [[nodiscard]] std::int64_t gap_at() const { return gap_at_; }
  [[nodiscard]] std::int64_t last() const { return last_; }

 private:
  std::int64_t interval_, last_ = 0, gap_ = 0, gap_at_ = 0;
  std::vector<std::uint64_t> bytes_, messages_;
  std::vector<Sample> samples_;
};

}  // namespace brdma::perf
