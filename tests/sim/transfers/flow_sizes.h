// sim/transfers/flow_sizes.h - a measured distribution of flow sizes (tests/figures/flow-sizes), to draw from.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/random.h"

namespace brdma::test {

class FlowSizes {
 public:
  // A file of `bytes,cumulative_probability` rows behind comments and that header; throws std::runtime_error.
  explicit FlowSizes(const std::string& path);
  [[nodiscard]] std::uint32_t draw(Random& random) const;
  [[nodiscard]] double mean() const { return mean_; }
  [[nodiscard]] std::uint32_t largest() const { return rows_.back().bytes; }

 private:
  struct Row {
    std::uint32_t bytes;
    double probability;  // that a flow is at most so long
  };
  std::vector<Row> rows_;
  double mean_ = 0;
};

}  // namespace brdma::test
