#include "samples/diagram.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "samples/quantities.h"

namespace brdma::samples {
namespace {

// For light and dark backgrounds: the viewer's preference decides.
constexpr const char* kStyle =
    "<style>.bg{fill:#fff}.t{fill:#222}.q{fill:#555}.f{fill:none;stroke:#888}.g{stroke:#ddd}.w{fill:#eee}"
    ".l{fill:none;stroke:#1f618d;stroke-width:1.8}\n"
    "@media (prefers-color-scheme:dark){.bg{fill:#15191e}.t{fill:#e6e6e6}.q{fill:#b0b8c0}.f{stroke:#8a929a}"
    ".g{stroke:#3a4149}.w{fill:#262c33}.l{stroke:#6fb7ee}}</style>\n";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace

std::string text_at(double x, double y, const std::string& anchor, const std::string& text, const std::string& more) {
  return "<text " + more + " x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(text) + "</text>\n";
}

std::string box(double x, double y, double width, double height, const char* kind) {
  return "<rect class=\"" + std::string{kind} + "\" x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" width=\"" +
         fixed(width, 1) + "\" height=\"" + fixed(height, 1) + "\"/>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return "<line class=\"" + std::string{kind} + "\" x1=\"" + fixed(x1, 1) + "\" y1=\"" + fixed(y1, 1) + "\" x2=\"" +
         fixed(x2, 1) + "\" y2=\"" + fixed(y2, 1) + "\"/>\n";
}

std::string number(double value) {
  std::string text = fixed(value, 6);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string polyline(const std::string& points) { return "<polyline class=\"l\" points=\"" + points + "\"/>\n"; }

std::string point(double x, double y) { return fixed(x, 1) + "," + fixed(y, 1) + " "; }

// What is drawn over a diagram's marks: its title, its frame, and what the axes are with their units.
std::string axes(const Frame& frame, const std::string& title, const std::string& beside, const std::string& below) {
  const double x = 18, y = frame.top + kPlotHeight / 2;
  const std::string turned = "class=\"t\" transform=\"rotate(-90 " + fixed(x, 1) + " " + fixed(y, 1) + ")\"";
  return text_at(kLeft, frame.top - 10, "start", title, "class=\"t\" font-weight=\"bold\"") +
         text_at(x, y, "middle", beside, turned) +
         text_at((kLeft + kWidth - kRight) / 2, frame.bottom() + 38, "middle", below) +
         box(kLeft, frame.top, kWidth - kLeft - kRight, kPlotHeight, "f");
}

std::string x_tick(const Frame& frame, double at, const std::string& label) {
  return line(frame.x(at), frame.bottom(), frame.x(at), frame.bottom() + 5, "f") +
         text_at(frame.x(at), frame.bottom() + 19, "middle", label);
}

std::string y_tick(const Frame& frame, double at, const std::string& label) {
  return line(kLeft, frame.y(at), kWidth - kRight, frame.y(at), "g") +
         text_at(kLeft - 8, frame.y(at) + 4, "end", label);
}

std::string tail_diagram(std::vector<std::uint64_t> took, const std::string& what, double top) {
  std::erase(took, 0u);  // a logarithmic axis has no place for it
  if (took.empty()) return "";
  std::sort(took.begin(), took.end());
  const auto us = [&](std::size_t i) { return std::log10(static_cast<double>(took[i]) / 1000); };
  const auto n = static_cast<double>(took.size());
  const double low = std::floor(us(0)), high = std::max(low + 1, std::ceil(us(took.size() - 1)));
  const double least = -std::max(1.0, std::ceil(std::log10(n)));
  const Frame frame{top, low, high, least - 0.08, 0.08};  // nothing lies on the edge
  std::string svg;
  for (double tick = least; tick <= 0; ++tick) svg += y_tick(frame, tick, number(std::pow(10, tick)));
  for (double tick = low; tick <= high; ++tick) svg += x_tick(frame, tick, number(std::pow(10, tick)));
  // One point for each place that differs, not one for each sample.
  std::string points;
  double last_x = -1, last_y = -1;
  for (std::size_t i = 0; i < took.size(); ++i) {
    const double x = frame.x(us(i)), y = frame.y(std::log10((n - static_cast<double>(i)) / n));
    if (i + 1 != took.size() && std::abs(x - last_x) < 0.7 && std::abs(y - last_y) < 0.7) continue;
    points += point(x, y);
    last_x = x;
    last_y = y;
  }
  return svg + axes(frame, what + ": the part that took so long or longer", "part of the samples", what + ", us") +
         polyline(points);
}

std::vector<double> round_ticks(double high, std::size_t most) {
  if (!(high > 0) || most == 0) return {0};
  const double rough = high / static_cast<double>(most);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0}) {
    if (factor * power >= rough * (1 - 1e-9)) step = factor * power;
  }
  std::vector<double> ticks;
  for (std::size_t i = 0; static_cast<double>(i) * step <= high * (1 + 1e-9); ++i) {
    ticks.push_back(static_cast<double>(i) * step);
  }
  return ticks;
}

std::string picture(double height, const std::string& title, const std::string& below, const std::string& parts) {
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + fixed(kWidth, 0) + "\" height=\"" + fixed(height, 0) +
         "\" viewBox=\"0 0 " + fixed(kWidth, 0) + " " + fixed(height, 0) +
         "\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n" + kStyle +
         "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n" +
         text_at(12, 21, "start", title, "class=\"t\" font-size=\"15\" font-weight=\"bold\"") +
         text_at(12, 40, "start", below, "class=\"q\"") + parts + "</svg>\n";
}

}  // namespace brdma::samples
