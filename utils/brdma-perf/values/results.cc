#include "values/results.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr std::array kPercents{50.0, 90.0, 95.0, 99.0, 99.9, 99.99};
// Classes of flows, by size: up to 10 KB fit a window anywhere, above 1 MB the rate alone decides.
constexpr std::array<std::uint64_t, 5> kClassEnds{1'000, 10'000, 100'000, 1'000'000,
                                                  std::numeric_limits<std::uint64_t>::max()};

double seconds(std::int64_t ns) { return static_cast<double>(ns) / 1e9; }

std::vector<double> per_second(const std::vector<std::uint64_t>& counts, std::int64_t interval, double unit) {
  std::vector<double> rates;
  for (const std::uint64_t count : counts) rates.push_back(static_cast<double>(count) / seconds(interval) / unit);
  return rates;
}

Json percentiles(std::vector<std::uint64_t>& took) {
  std::sort(took.begin(), took.end());
  Json rows = Json::array();
  for (const double percent : kPercents) {
    Estimate estimate = quantile(took, percent / 100);
    estimate.value /= 1000;
    if (estimate.low) *estimate.low /= 1000;
    if (estimate.high) *estimate.high /= 1000;
    Json row = to_json(estimate, "us");
    row["percent"] = percent;
    rows.push_back(std::move(row));
  }
  return rows;
}

Json latency_of(std::vector<std::uint64_t> took) {
  if (took.empty()) return nullptr;
  Json rows = percentiles(took);  // sorts them
  const double sum = std::accumulate(took.begin(), took.end(), 0.0);
  return {{"count", took.size()},
          {"min_us", static_cast<double>(took.front()) / 1000},
          {"mean_us", sum / static_cast<double>(took.size()) / 1000},
          {"max_us", static_cast<double>(took.back()) / 1000},
          {"percentiles", std::move(rows)}};
}

// Of the samples that completed in the steady part, with sizes above `from` and up to `to`.
std::vector<std::uint64_t> times_of(const std::vector<Sample>& samples, std::int64_t since, std::uint64_t from,
                                    std::uint64_t to) {
  std::vector<std::uint64_t> took;
  for (const Sample& sample : samples) {
    if (sample.at >= since && sample.bytes > from && sample.bytes <= to) took.push_back(sample.took);
  }
  return took;
}

Json flows_of(const std::vector<Sample>& samples, std::int64_t since) {
  Json classes = Json::array();
  std::uint64_t from = 0;
  for (const std::uint64_t to : kClassEnds) {
    Json row = latency_of(times_of(samples, since, from, to));
    if (!row.is_null()) {
      row["from_bytes"] = from + 1;
      row["to_bytes"] = to == kClassEnds.back() ? Json{} : Json(to);
      classes.push_back(std::move(row));
    }
    from = to;
  }
  return classes;
}

// Whole intervals alone: the last one is cut off by the run's end.
struct Steady {
  std::size_t from, to;  // intervals
  bool given;
};

Steady steady_of(const Run& run) {
  const Recording& recording = run.recording;
  const auto whole = static_cast<std::size_t>(run.elapsed / recording.interval());
  const std::size_t to = std::min(whole, recording.bytes().size());
  if (run.warmup) {
    const auto from = static_cast<std::size_t>((*run.warmup + recording.interval() - 1) / recording.interval());
    return {std::min(from, to), to, true};
  }
  const std::vector<double> rates = per_second(recording.messages(), recording.interval(), 1);
  return {warmup_length(std::span{rates}.first(to)), to, false};
}

Estimate steady_mean(const std::vector<std::uint64_t>& counts, const Steady& steady, const Run& run, double unit) {
  const std::vector<double> rates = per_second(counts, run.recording.interval(), unit);
  if (steady.from < steady.to) return series_mean(std::span{rates}.subspan(steady.from, steady.to - steady.from));
  const double sum = std::accumulate(counts.begin(), counts.end(), 0.0);
  return {run.elapsed > 0 ? sum / seconds(run.elapsed) / unit : 0, {}, {}};
}

std::string interval_text(const Json& row, int digits) {
  const auto end = [&](const char* key) {
    return row.at(key).is_null() ? std::string{"?"} : fixed(row.at(key).get<double>(), digits);
  };
  return "(" + end("low") + " .. " + end("high") + ")";
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

std::string percentile_rows(const Json& latency) {
  std::string text;
  for (const Json& row : latency.at("percentiles")) {
    std::string percent = fixed(row.at("percent").get<double>(), 2);
    percent.erase(percent.find_last_not_of('0') + 1);
    if (percent.back() == '.') percent.pop_back();
    text += "  p" + percent + std::string(6 - std::min<std::size_t>(percent.size(), 5), ' ') +
            padded(fixed(row.at("us").get<double>(), 2), 12) + "  " + interval_text(row, 2) + "\n";
  }
  return text;
}

std::string latency_text(const Json& latency, const std::string& what) {
  return what + ", us, of " + std::to_string(latency.at("count").get<std::uint64_t>()) + ": min " +
         fixed(latency.at("min_us").get<double>(), 2) + ", mean " + fixed(latency.at("mean_us").get<double>(), 2) +
         ", max " + fixed(latency.at("max_us").get<double>(), 2) + "\n" + percentile_rows(latency);
}

std::string flow_rows(const Json& flows) {
  std::string text;
  for (const Json& row : flows) {
    const std::string to =
        row.at("to_bytes").is_null() ? "more" : std::to_string(row.at("to_bytes").get<std::uint64_t>());
    text += latency_text(
        row, "flows of " + std::to_string(row.at("from_bytes").get<std::uint64_t>()) + " to " + to + " bytes");
  }
  return text;
}

std::string head_of(const Json& r) {
  std::string text =
      r.at("operation").get<std::string>() + " " + r.at("mode").get<std::string>() + " to " +
      r.at("server").get<std::string>() + ": " + r.at("device").get<std::string>() + ", MTU " +
      std::to_string(r.at("mtu").get<std::uint32_t>()) + ", " + std::to_string(r.at("size").get<std::uint64_t>()) +
      " bytes, depth " + std::to_string(r.at("depth").get<std::uint64_t>()) + ", queue pairs " +
      std::to_string(r.at("queue_pairs").get<std::uint64_t>()) + ", " + r.at("completion").get<std::string>() + "\n";
  if (!r.at("sizes").is_null()) text += "flows       sizes of " + r.at("sizes").get<std::string>() + "\n";
  return text;
}

std::string tail_of(const Json& r) {
  const Json &steady = r.at("steady"), &stall = r.at("stall"), &checks = r.at("check");
  const double elapsed = r.at("elapsed_s").get<double>();
  std::string text = "steady      from " + fixed(steady.at("from_s").get<double>(), 1) + " s to " +
                     fixed(steady.at("to_s").get<double>(), 1) + " s of " + fixed(elapsed, 1) + " s (" +
                     (steady.at("found") == "given" ? "as given" : "found in the series") + ")\n";
  text += "stall       at most " + fixed(stall.at("longest_ms").get<double>(), 2) + " ms without a completion, at " +
          fixed(stall.at("at_s").get<double>(), 2) + " s\n";
  text += "data        " + std::to_string(r.at("messages").get<std::uint64_t>()) + " messages, " +
          std::to_string(checks.at("messages").get<std::uint64_t>()) + " checked, " +
          std::to_string(checks.at("by_crc").get<std::uint64_t>()) +
          " of them by CRC: " + std::to_string(checks.at("flaws").get<std::uint64_t>()) + " flaws; checks took " +
          fixed(checks.at("seconds").get<double>(), 3) + " s, both sides together\n";
  text += "processor   " + fixed(r.at("cpu").at("seconds").get<double>(), 2) + " s of this side\n";
  return text;
}

}  // namespace

Json to_json(const Estimate& estimate, const char* key) {
  const auto end = [](const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); };
  return {{key, estimate.value}, {"low", end(estimate.low)}, {"high", end(estimate.high)}};
}

Json results_of(const Run& run) {
  const Plan& plan = run.plan;
  const Recording& recording = run.recording;
  const Steady steady = steady_of(run);
  const double interval = seconds(recording.interval());
  const auto since = static_cast<std::int64_t>(steady.from) * recording.interval();
  Json goodput = to_json(steady_mean(recording.bytes(), steady, run, 1e6), "mbytes_s");
  goodput["whole_run"] = run.elapsed > 0 ? static_cast<double>(run.bytes) / seconds(run.elapsed) / 1e6 : 0;
  Json r{{"program", "brdma-perf"},
         {"version", BRDMA_VERSION},
         {"operation", name_of(plan.operation)},
         {"mode", name_of(plan.mode)},
         {"server", run.server},
         {"device", run.device},
         {"gid", run.gid},
         {"mtu", run.mtu},
         {"start", plan.rdma_cm ? "rdma_cm" : "tcp"},
         {"completion", plan.sleeping ? "sleeping" : "polling"},
         {"size", plan.size},
         {"depth", plan.depth},
         {"queue_pairs", plan.queue_pairs},
         {"load_queue_pairs", plan.load},
         {"clients", plan.clients},
         {"crc_every", plan.crc_every},
         {"sizes", run.sizes.empty() ? Json(nullptr) : Json(run.sizes)},
         {"every_us", static_cast<double>(run.every) / 1000},
         {"seed", plan.seed}};
  r["elapsed_s"] = seconds(run.elapsed);
  r["messages"] = run.messages;
  r["bytes"] = run.bytes;
  r["steady"] = {{"from_s", static_cast<double>(steady.from) * interval},
                 {"to_s", steady.to > 0 ? static_cast<double>(steady.to) * interval : seconds(run.elapsed)},
                 {"found", steady.given ? "given" : "series"}};
  r["goodput"] = std::move(goodput);
  r["rate"] = to_json(steady_mean(recording.messages(), steady, run, 1), "messages_s");
  r["latency"] = latency_of(times_of(recording.samples(), since, 0, std::numeric_limits<std::uint64_t>::max()));
  r["flows"] = plan.mode == Mode::kFct ? flows_of(recording.samples(), since) : Json{};
  r["load"] =
      run.load_bytes
          ? Json{{"mbytes_s", run.elapsed > 0 ? static_cast<double>(*run.load_bytes) / seconds(run.elapsed) / 1e6 : 0}}
          : Json{};
  r["intervals"] = {{"seconds", interval}, {"mbytes_s", per_second(recording.bytes(), recording.interval(), 1e6)}};
  r["stall"] = {{"longest_ms", seconds(recording.longest_gap()) * 1000}, {"at_s", seconds(recording.gap_at())}};
  r["check"] = {{"messages", run.checks.messages},
                {"by_crc", run.checks.by_crc},
                {"flaws", run.checks.flaws},
                {"seconds", static_cast<double>(run.checks.ns) / 1e9}};
  r["cpu"] = {{"seconds", run.cpu_seconds}};
  return r;
}

std::string text_of(const Json& r) {
  std::string text = head_of(r);
  const Json &goodput = r.at("goodput"), &rate = r.at("rate");
  const double mbytes = goodput.at("mbytes_s").get<double>();
  text += "goodput     " + fixed(mbytes, 2) + " MB/s " + interval_text(goodput, 2) + ", " +
          fixed(mbytes * 8 / 1000, 3) + " Gbit/s\n";
  text +=
      "rate        " + fixed(rate.at("messages_s").get<double>(), 0) + " messages/s " + interval_text(rate, 0) + "\n";
  if (!r.at("load").is_null()) {
    text += "load        " + fixed(r.at("load").at("mbytes_s").get<double>(), 2) + " MB/s by other queue pairs\n";
  }
  if (!r.at("latency").is_null()) {
    text += latency_text(r.at("latency"), r.at("flows").is_null() ? "latency" : "flow completion times");
  }
  if (!r.at("flows").is_null()) text += flow_rows(r.at("flows"));
  return text + tail_of(r);
}

Json incast_of(const std::vector<ClientShare>& shares) {
  Json clients = Json::array();
  std::vector<double> rates;
  for (const ClientShare& share : shares) {
    clients.push_back({{"client", share.name}, {"mbytes_s", share.mbytes_s}});
    rates.push_back(share.mbytes_s);
  }
  return {{"clients", std::move(clients)},
          {"total_mbytes_s", std::accumulate(rates.begin(), rates.end(), 0.0)},
          {"fairness", fairness(rates)}};
}

std::string incast_text(const Json& incast) {
  std::string text;
  for (const Json& row : incast.at("clients")) {
    text += row.at("client").get<std::string>() + "  " + fixed(row.at("mbytes_s").get<double>(), 2) + " MB/s\n";
  }
  if (incast.at("clients").size() > 1) {
    text += "together " + fixed(incast.at("total_mbytes_s").get<double>(), 2) + " MB/s, fairness " +
            fixed(incast.at("fairness").get<double>(), 3) + "\n";
  }
  return text;
}

}  // namespace brdma::perf
