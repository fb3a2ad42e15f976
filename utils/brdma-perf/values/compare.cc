#include "values/compare.h"

#include <array>
#include <optional>
#include <vector>

#include "values/results.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr std::array kConditions{"operation", "mode",     "size",     "depth", "queue_pairs", "load_queue_pairs",
                                 "clients",   "sizes",    "every_us", "mtu",   "start",       "completion",
                                 "device",    "crc_every"};

struct Metric {
  std::string name, unit;
  Estimate value;
};

std::optional<double> end_of(const Json& row, const char* key) {
  return row.at(key).is_null() ? std::nullopt : std::optional{row.at(key).get<double>()};
}

Estimate estimate_of(const Json& row, const char* key) {
  return {row.at(key).get<double>(), end_of(row, "low"), end_of(row, "high")};
}

void add_percentiles(std::vector<Metric>& metrics, const std::string& what, const Json& latency) {
  for (const Json& row : latency.at("percentiles")) {
    std::string percent = fixed(row.at("percent").get<double>(), 2);
    percent.erase(percent.find_last_not_of('0') + 1);
    if (percent.back() == '.') percent.pop_back();
    metrics.push_back({what + " p" + percent, "us", estimate_of(row, "us")});
  }
}

std::vector<Metric> metrics_of(const Json& r) {
  std::vector<Metric> metrics{{"goodput", "MB/s", estimate_of(r.at("goodput"), "mbytes_s")},
                              {"rate", "messages/s", estimate_of(r.at("rate"), "messages_s")}};
  if (!r.at("latency").is_null()) {
    add_percentiles(metrics, r.at("flows").is_null() ? "latency" : "flows", r.at("latency"));
  }
  if (!r.at("flows").is_null()) {
    for (const Json& flows : r.at("flows")) {
      add_percentiles(metrics, "flows from " + std::to_string(flows.at("from_bytes").get<std::uint64_t>()), flows);
    }
  }
  return metrics;
}

const char* name_of(Difference difference) {
  switch (difference) {
    case Difference::kNone:
      return "none";
    case Difference::kMore:
      return "more";
    case Difference::kLess:
      return "less";
    case Difference::kUnknown:
      return "unknown";
  }
  return "";
}

Json row_of(const Metric& a, const Metric& b) {
  return {{"metric", a.name},
          {"unit", a.unit},
          {"a", to_json(a.value, "value")},
          {"b", to_json(b.value, "value")},
          {"ratio", a.value.value > 0 ? Json(b.value.value / a.value.value) : Json(nullptr)},
          {"difference", name_of(difference(a.value, b.value))}};
}

std::string cell(const Json& side) {
  const auto end = [&](const char* key) {
    return side.at(key).is_null() ? std::string{"?"} : fixed(side.at(key).get<double>(), 2);
  };
  return fixed(side.at("value").get<double>(), 2) + " (" + end("low") + " .. " + end("high") + ")";
}

std::string column(std::string text, std::size_t width) {
  if (text.size() < width) text.append(width - text.size(), ' ');
  return text + "  ";
}

std::string shown(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

}  // namespace

Json compare(const Json& a, const Json& b) {
  try {
    Json differs = Json::array(), rows = Json::array();
    for (const char* const key : kConditions) {
      if (a.at(key) != b.at(key)) differs.push_back({{"key", key}, {"a", a.at(key)}, {"b", b.at(key)}});
    }
    const std::vector<Metric> of_b = metrics_of(b);
    for (const Metric& metric : metrics_of(a)) {
      for (const Metric& other : of_b) {
        if (other.name == metric.name) rows.push_back(row_of(metric, other));
      }
    }
    return {{"differs", std::move(differs)}, {"metrics", std::move(rows)}};
  } catch (const Json::exception& error) {
    throw RunError(std::string{"no result of 'brdma perf -j': "} + error.what());
  }
}

std::string compare_text(const Json& comparison) {
  std::string text;
  for (const Json& row : comparison.at("differs")) {
    text += "not the same " + row.at("key").get<std::string>() + ": A " + shown(row.at("a")) + ", B " +
            shown(row.at("b")) + "\n";
  }
  text += column("", 24) + column("A (95 % interval)", 36) + column("B", 36) + "B/A     beyond noise\n";
  for (const Json& row : comparison.at("metrics")) {
    const std::string difference = row.at("difference").get<std::string>();
    const std::string verdict = difference == "none" ? "no" : difference == "unknown" ? "too few samples" : difference;
    text += column(row.at("metric").get<std::string>() + ", " + row.at("unit").get<std::string>(), 24) +
            column(cell(row.at("a")), 36) + column(cell(row.at("b")), 36) +
            column(row.at("ratio").is_null() ? "-" : fixed(row.at("ratio").get<double>(), 3), 6) + verdict + "\n";
  }
  return text;
}

}  // namespace brdma::perf
