// sweep.h - the points of a sweep: loads x seeds x further values, each one process (`brdma-sim run`) and one folder. A
// point is done when its summary.json is there; it is not repeated. Any number of processes, on any number of machines
// with a common folder, may work on parts of the points; each of them merges what is there at its end:
//   DIR/points/NAME/...   each point's files
//   DIR/points.tsv        a row for each point that is done
//   DIR/sweep.json        for each load and set of values: means over seeds, with intervals
// Errors: samples::Misuse, samples::RunError.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "options.h"
#include "results/summary.h"

namespace brdma::simulator {

struct Point {
  std::string load, seed;                                   // empty: the file's
  std::vector<std::pair<std::string, std::string>> values;  // of --each
  [[nodiscard]] std::string name() const;                   // of its folder: letters, digits, '.', '_', '-', '='
  [[nodiscard]] std::string group() const;                  // the same without the seed
  [[nodiscard]] std::vector<std::string> changes() const;   // as --set has them
};
[[nodiscard]] std::vector<Point> points_of(const Options& options);
// Those of a part: every N-th, so that parts cost about the same.
[[nodiscard]] std::vector<Point> points_of(const std::vector<Point>& all, const Part& part);

// A row for each summary, and their means. `summaries`: of points, in their order.
struct DonePoint {
  Point point;
  Json summary;
};
[[nodiscard]] std::string point_rows(const std::vector<DonePoint>& done);
[[nodiscard]] Json means_of(const std::vector<DonePoint>& done);

// Exit code.
[[nodiscard]] int run_sweep(const Options& options);

}  // namespace brdma::simulator
