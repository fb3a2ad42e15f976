// control/nearest_word.h - which word a mistyped one was meant to be, for messages about unknown words.
// A distance counts characters that are inserted, removed or replaced, and neighbours that are swapped; letters of both
// cases are equal. A word is near if its distance is at most a third of the longer word, and at most 4.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace brdma {

// Shape: rows of the usual table of distances, the last three kept. Time grows with the product of the lengths.
[[nodiscard]] inline std::size_t word_distance(std::string_view from, std::string_view to) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const auto same = [&](std::size_t i, std::size_t j) { return lower(from[i]) == lower(to[j]); };
  std::vector<std::size_t> before(to.size() + 1), last(to.size() + 1), row(to.size() + 1);
  for (std::size_t j = 0; j <= to.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= from.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= to.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same(i - 1, j - 1) ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && same(i - 1, j - 2) && same(i - 2, j - 1);
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[to.size()];
}

// Keeps the nearest of the words that are offered; of equal ones the first.
class NearestWord {
 public:
  explicit NearestWord(std::string_view word) : word_(word) {}
  void offer(std::string_view candidate) {
    if (word_.size() > kLongest || candidate.size() > kLongest) return;
    const std::size_t distance = word_distance(word_, candidate);
    const std::size_t near = std::min<std::size_t>(4, std::max(word_.size(), candidate.size()) / 3);
    if (distance > near || (!found_.empty() && distance >= distance_)) return;
    distance_ = distance;
    found_ = candidate;
  }
  [[nodiscard]] const std::string& found() const { return found_; }  // empty: none is near
  // ": did you mean 'x'?", or nothing.
  [[nodiscard]] std::string question() const { return found_.empty() ? "" : ": did you mean '" + found_ + "'?"; }

 private:
  static constexpr std::size_t kLongest = 64;
  std::string word_, found_;
  std::size_t distance_ = 0;
};

}  // namespace brdma
