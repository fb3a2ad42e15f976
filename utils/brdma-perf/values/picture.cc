#include "values/picture.h"

#include <algorithm>
#include <cmath>

#include "values/quantities.h"

namespace brdma::perf {
namespace {

constexpr double kWidth = 760, kLeft = 80, kRight = 20, kTop = 50, kPlotHeight = 220, kGap = 80;

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

std::string text_at(double x, double y, const std::string& anchor, const std::string& text) {
  return "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor + "\">" + escaped(text) +
         "</text>\n";
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + fixed(x1, 1) + "\" y1=\"" + fixed(y1, 1) + "\" x2=\"" + fixed(x2, 1) + "\" y2=\"" +
         fixed(y2, 1) + "\" stroke=\"" + colour + "\"/>\n";
}

std::string number(double value) {
  std::string text = fixed(value, 6);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string polyline(const std::string& points) {
  return "<polyline fill=\"none\" stroke=\"#1f5fa8\" stroke-width=\"1.5\" points=\"" + points + "\"/>\n";
}

std::string point(double x, double y) { return fixed(x, 1) + "," + fixed(y, 1) + " "; }

std::string axes(const Frame& frame, const std::string& title, const std::string& below) {
  return text_at(kLeft, frame.top - 10, "start", title) +
         text_at((kLeft + kWidth - kRight) / 2, frame.bottom() + 38, "middle", below) +
         line(kLeft, frame.top, kLeft, frame.bottom(), "#444") +
         line(kLeft, frame.bottom(), kWidth - kRight, frame.bottom(), "#444");
}

std::string x_tick(const Frame& frame, double at, const std::string& label) {
  return line(frame.x(at), frame.bottom(), frame.x(at), frame.bottom() + 5, "#444") +
         text_at(frame.x(at), frame.bottom() + 19, "middle", label);
}

std::string y_tick(const Frame& frame, double at, const std::string& label) {
  return line(kLeft, frame.y(at), kWidth - kRight, frame.y(at), "#ddd") +
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
    svg += "<rect x=\"" + fixed(kLeft, 1) + "\" y=\"" + fixed(top, 1) + "\" width=\"" +
           fixed(frame.x(steady) - kLeft, 1) + "\" height=\"" + fixed(kPlotHeight, 1) + "\" fill=\"#eee\"/>\n";
  }
  for (const double tick : round_ticks(frame.y_high, 6)) svg += y_tick(frame, tick, number(tick));
  for (const double tick : round_ticks(end, 8)) svg += x_tick(frame, tick, number(tick));
  std::string points;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    points += point(frame.x(static_cast<double>(i) * interval), frame.y(rates[i]));
    points += point(frame.x(static_cast<double>(i + 1) * interval), frame.y(rates[i]));
  }
  svg += axes(frame, "goodput, MB/s", std::string{"seconds"} + (steady > 0 ? " (grey: warm-up)" : ""));
  return svg + (points.empty() ? "" : polyline(points));
}

std::string latency_part(std::vector<std::uint64_t> took, const std::string& what, double top) {
  std::sort(took.begin(), took.end());
  const auto logarithm = [](double value) { return std::log10(std::max(value, 1e-3)); };
  const auto us = [&](std::size_t i) { return logarithm(static_cast<double>(took[i]) / 1000); };
  const auto n = static_cast<double>(took.size());
  const double low = std::floor(us(0)), high = std::max(low + 1, std::ceil(us(took.size() - 1)));
  const double least = -std::max(1.0, std::ceil(std::log10(n)));
  const Frame frame{top, low, high, least, 0};
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
  return svg + axes(frame, what + ": the part that took so long or longer", "microseconds") + polyline(points);
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
                    fixed(height, 0) + "\" font-family=\"sans-serif\" font-size=\"12\">\n" +
                    "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  const std::string what = results.at("operation").get<std::string>() + " " + results.at("mode").get<std::string>();
  svg += "<text x=\"" + fixed(kLeft, 1) + "\" y=\"20\" font-weight=\"bold\">" +
         escaped("brdma perf " + what + ", " + std::to_string(results.at("size").get<std::uint64_t>()) + " bytes, " +
                 results.at("device").get<std::string>()) +
         "</text>\n";
  svg += goodput_part(results, kTop);
  if (!took.empty()) {
    svg += latency_part(std::move(took), results.at("flows").is_null() ? "latency" : "flow completion time",
                        kTop + kPlotHeight + kGap);
  }
  return svg + "</svg>\n";
}

}  // namespace brdma::perf
