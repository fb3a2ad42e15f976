// samples/diagram.h - diagrams as SVG 1.1, without script and without a font but the viewer's, for light and dark
// backgrounds. A picture has diagrams below each other. Pure. Values are the caller's; of logarithmic axes their
// decimal logarithms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace brdma::samples {

inline constexpr double kWidth = 720, kLeft = 80, kRight = 24, kTop = 84, kPlotHeight = 220, kGap = 84;

// One diagram: a frame and the map from values to places.
struct Frame {
  double top, x_low, x_high, y_low, y_high;  // values (of logarithmic axes their decimal logarithms)
  [[nodiscard]] double x(double value) const {
    return kLeft + (value - x_low) / (x_high - x_low) * (kWidth - kLeft - kRight);
  }
  [[nodiscard]] double y(double value) const {
    return top + kPlotHeight - (value - y_low) / (y_high - y_low) * kPlotHeight;
  }
  [[nodiscard]] double bottom() const { return top + kPlotHeight; }
};

[[nodiscard]] std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                                  const std::string& more = "class=\"t\"");
[[nodiscard]] std::string box(double x, double y, double width, double height, const char* kind);
[[nodiscard]] std::string line(double x1, double y1, double x2, double y2, const char* kind);
[[nodiscard]] std::string number(double value);
[[nodiscard]] std::string polyline(const std::string& points);
[[nodiscard]] std::string point(double x, double y);
// What is drawn over a diagram's marks: its title, its frame, and what the axes are with their units.
[[nodiscard]] std::string axes(const Frame& frame, const std::string& title, const std::string& beside,
                               const std::string& below);
[[nodiscard]] std::string x_tick(const Frame& frame, double at, const std::string& label);
[[nodiscard]] std::string y_tick(const Frame& frame, double at, const std::string& label);

// The part of samples above each time, both axes logarithmic. `took`: in ns, in any order; zeros are left out. `what`:
// "latency". Empty: no samples.
[[nodiscard]] std::string tail_diagram(std::vector<std::uint64_t> took, const std::string& what, double top);

// Positions of an axis' labels: 1, 2 or 5 times a power of ten, at most `most` + 1 from 0 to `high`.
[[nodiscard]] std::vector<double> round_ticks(double high, std::size_t most);

// The whole: two lines of text above, then the diagrams.
[[nodiscard]] std::string picture(double height, const std::string& title, const std::string& below,
                                  const std::string& parts);

}  // namespace brdma::samples
