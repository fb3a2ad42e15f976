#include "transfers/flow_sizes.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>

namespace brdma::test {

FlowSizes::FlowSizes(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be read");
  double before = 0;
  for (std::string line; std::getline(file, line);) {
    const std::size_t comma = line.find(',');
    if (line.empty() || line[0] < '0' || line[0] > '9' || comma == std::string::npos) continue;
    const Row row{static_cast<std::uint32_t>(std::stoul(line.substr(0, comma))), std::stod(line.substr(comma + 1))};
    mean_ += row.bytes * (row.probability - before);
    before = row.probability;
    rows_.push_back(row);
  }
  if (rows_.empty() || before < 1) throw std::runtime_error(path + ": no distribution");
}

std::uint32_t FlowSizes::draw(Random& random) const {
  const double at = static_cast<double>(random.below(1u << 30)) / (1u << 30);
  const auto row = std::partition_point(rows_.begin(), rows_.end(), [at](const Row& r) { return r.probability < at; });
  return std::max(row->bytes, 1u);
}

}  // namespace brdma::test
