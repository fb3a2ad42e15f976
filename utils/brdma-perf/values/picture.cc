#include "values/picture.h"

#include <algorithm>
#include <cmath>

#include "values/quantities.h"

namespace brdma::perf {
namespace {

constexpr double kWidth = 720, kLeft = 80, kRight = 24, kTop = 84, kPlotHeight = 220, kGap = 84;
// For light and dark backgrounds: the viewer's preference decides.
constexpr const char* kStyle =
    "<style>.bg{fill:#fff}.t{fill:#222}.q{fill:#555}.f{fill:none;stroke:#888}.g{stroke:#ddd}.w{fill:#eee}"
    ".l{fill:none;stroke:#1f618d;stroke-width:1.8}\n"
    "@media (prefers-color-scheme:dark){.bg{fill:#15191e}.t{fill:#e6e6e6}.q{fill:#b0b8c0}.f{stroke:#8a929a}"
    ".g{stroke:#3a4149}.w{fill:#262c33}.l{stroke:#6fb7ee}}</style>\n";

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

std::string text_at(double x, double y, const std::string& anchor, const std::string& text,
                    const std::string& more = "class=\"t\"") {
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

std::string goodput_part(const Json& results, double top) {
  const auto rates = results.at("intervals").at("mbytes_s").get<std::vector<double>>();
  const double interval = results.at("intervals").at("seconds").get<double>();
  const double end = std::max(interval, interval * static_cast<double>(rates.size()));
  const double most = rates.empty() ? 0 : *std::max_element(rates.begin(), rates.end());
  const Frame frame{top, 0, end, 0, most > 0 ? most * 1.05 : 1};
  std::string svg;
  const double steady = std::min(end, results.at("steady").at("from_s").get<double>());
  if (steady > 0) {
    svg += box(kLeft, top, frame.x(steady) - kLeft, kPlotHeight, "w");
  }
  for (const double tick : round_ticks(frame.y_high, 6)) svg += y_tick(frame, tick, number(tick));
  for (const double tick : round_ticks(end, 8)) svg += x_tick(frame, tick, number(tick));
  std::string points;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    points += point(frame.x(static_cast<double>(i) * interval), frame.y(rates[i]));
    points += point(frame.x(static_cast<double>(i + 1) * interval), frame.y(rates[i]));
  }
  svg += axes(frame, "goodput over time", "goodput, MB/s",
              std::string{"time, s"} + (steady > 0 ? " (shaded: warm-up)" : ""));
  return svg + (points.empty() ? "" : polyline(points));
}

std::string latency_part(std::vector<std::uint64_t> took, const std::string& what, double top) {
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

}  // namespace

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

std::string picture_of(const Json& results, std::vector<std::uint64_t> took) {
  const double height = kTop + kPlotHeight + 55 + (took.empty() ? 0 : kGap - 10 + kPlotHeight);
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + fixed(kWidth, 0) + "\" height=\"" +
                    fixed(height, 0) + "\" viewBox=\"0 0 " + fixed(kWidth, 0) + " " + fixed(height, 0) +
                    "\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n" + kStyle +
                    "<rect class=\"bg\" width=\"100%\" height=\"100%\"/>\n";
  const auto whole = [&](const char* key) { return std::to_string(results.at(key).get<std::uint64_t>()); };
  const std::string what = results.at("operation").get<std::string>() + " " + results.at("mode").get<std::string>();
  svg += text_at(12, 21, "start", "brdma perf " + what + ", " + whole("size") + " bytes",
                 "class=\"t\" font-size=\"15\" font-weight=\"bold\"");
  svg += text_at(12, 40, "start",
                 results.at("device").get<std::string>() + " to " + results.at("server").get<std::string>() +
                     ", path MTU " + whole("mtu") + ", queue pairs " + whole("queue_pairs") + ", depth " +
                     whole("depth") + ", one run of " + fixed(results.at("elapsed_s").get<double>(), 1) + " s",
                 "class=\"q\"");
  svg += "<g>\n" + goodput_part(results, kTop) + "</g>\n";
  if (!took.empty()) {
    svg += "<g>\n" +
           latency_part(std::move(took), results.at("flows").is_null() ? "latency" : "flow completion time",
                        kTop + kPlotHeight + kGap) +
           "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace brdma::perf
