// samples/size_mix.h - a distribution of flow sizes, from a file of rows `bytes,cumulative_probability`.
//
// Lines that begin with '#' are comments; `# sampling: step` draws a row's size exactly, else sizes between two rows
// are interpolated. Rows are in order, probabilities between 0 and 1, the last one 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"

namespace brdma::samples {

class SizeMix {
 public:
  static constexpr std::size_t kRowsMax = 100'000;

  // Throws Misuse with the line's number and what is wrong there. `name` is for messages and results.
  [[nodiscard]] static SizeMix parse(std::string_view text, std::string name);
  // A file by its path, or a name of a file without .csv in one of the folders. Throws Misuse, with the known names.
  [[nodiscard]] static SizeMix open(const std::string& name, const std::vector<std::string>& folders);

  [[nodiscard]] std::uint64_t draw(Random& random) const;  // at least 1
  [[nodiscard]] double mean() const;
  [[nodiscard]] std::uint64_t largest() const { return rows_.back().bytes; }
  [[nodiscard]] const std::string& name() const { return name_; }

 private:
  struct Row {
    std::uint64_t bytes;
    double probability;  // that a flow is at most so long
  };
  // Returns what is wrong with it, or null.
  const char* add_row(std::string_view line);
  std::vector<Row> rows_;
  std::string name_;
  bool step_ = false;
};

}  // namespace brdma::samples
