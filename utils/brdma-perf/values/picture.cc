#include "values/picture.h"

#include <algorithm>
#include <utility>

#include "samples/diagram.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

using samples::axes;
using samples::box;
using samples::Frame;
using samples::kGap;
using samples::kLeft;
using samples::kPlotHeight;
using samples::kRight;
using samples::kTop;
using samples::kWidth;
using samples::number;
using samples::point;
using samples::polyline;
using samples::round_ticks;
using samples::x_tick;
using samples::y_tick;

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

}  // namespace

std::string picture_of(const Json& results, std::vector<std::uint64_t> took) {
  const double height = kTop + kPlotHeight + 55 + (took.empty() ? 0 : kGap - 10 + kPlotHeight);
  const auto whole = [&](const char* key) { return std::to_string(results.at(key).get<std::uint64_t>()); };
  const std::string what = results.at("operation").get<std::string>() + " " + results.at("mode").get<std::string>();
  const std::string below = results.at("device").get<std::string>() + " to " + results.at("server").get<std::string>() +
                            ", path MTU " + whole("mtu") + ", queue pairs " + whole("queue_pairs") + ", depth " +
                            whole("depth") + ", one run of " + fixed(results.at("elapsed_s").get<double>(), 1) + " s";
  std::string svg = "<g>\n" + goodput_part(results, kTop) + "</g>\n";
  if (!took.empty()) {
    svg += "<g>\n" +
           samples::tail_diagram(std::move(took), results.at("flows").is_null() ? "latency" : "flow completion time",
                                 kTop + kPlotHeight + kGap) +
           "</g>\n";
  }
  return samples::picture(height, "brdma perf " + what + ", " + whole("size") + " bytes", below, svg);
}

}  // namespace brdma::perf
