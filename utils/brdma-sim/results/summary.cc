#include "results/summary.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <cstdio>
#include <functional>
#include <set>

#include "run/flows.h"
#include "samples/diagram.h"
#include "samples/quantities.h"
#include "samples/statistics.h"

namespace brdma::simulator {
namespace {

using samples::Estimate;
using samples::fixed;

constexpr std::size_t kBinsMax = 20, kBinFlowsMin = 20;
constexpr std::array<std::pair<const char*, double>, 4> kQuantiles{
    {{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}}};

double rounded(double value) { return std::round(value * 1e6) / 1e6; }

Json json_of(const Estimate& estimate, double unit) {
  const auto end = [unit](const std::optional<double>& value) { return value ? Json(rounded(*value / unit)) : Json(); };
  return {{"value", rounded(estimate.value / unit)}, {"low", end(estimate.low)}, {"high", end(estimate.high)}};
}

// Of values in the order of the flows' starts. In integers, so that ranks are the samples' own: `unit` of them are 1.
Json estimates(const std::vector<std::uint64_t>& in_order, double unit) {
  Json json;
  if (in_order.empty()) {
    json["mean"] = Json();
    for (const auto& quantile : kQuantiles) json[quantile.first] = Json();
    return json;
  }
  json["mean"] = json_of(samples::series_mean(std::vector<double>(in_order.begin(), in_order.end())), unit);
  std::vector<std::uint64_t> sorted = in_order;
  std::sort(sorted.begin(), sorted.end());
  for (const auto& [name, part] : kQuantiles) json[name] = json_of(samples::quantile(sorted, part), unit);
  return json;
}

constexpr double kSlowdownUnit = 1e6;  // slowdowns in millionths

Json times_and_slowdowns(const std::vector<const FlowResult*>& flows) {
  std::vector<std::uint64_t> times, slow;
  for (const FlowResult* each : flows) {
    times.push_back(static_cast<std::uint64_t>(each->took->ns()));
    slow.push_back(static_cast<std::uint64_t>(std::llround(slowdown(*each) * kSlowdownUnit)));
  }
  return {{"fct_us", estimates(times, 1000)}, {"slowdown", estimates(slow, kSlowdownUnit)}};
}

Json by_size(const std::vector<const FlowResult*>& flows) {
  Json bins = Json::array();
  for (const SizeBin& bin : size_bins(flows)) {
    Json row{{"bytes_from", bin.least}, {"bytes_to", bin.most}, {"flows", bin.slowdowns.size()}};
    std::vector<std::uint64_t> sorted;
    for (const double each : bin.slowdowns)
      sorted.push_back(static_cast<std::uint64_t>(std::llround(each * kSlowdownUnit)));
    for (std::size_t i = 0; i < 3; ++i) {
      row[kQuantiles[i].first] = json_of(samples::quantile(sorted, kQuantiles[i].second), kSlowdownUnit);
    }
    bins.push_back(std::move(row));
  }
  return bins;
}

Json workloads_of(const Scenario& scenario, const RunResult& result) {
  const Shape shape = make_shape(scenario);
  Json rows = Json::array();
  for (std::uint32_t i = 0; i < scenario.workloads.size(); ++i) {
    const WorkloadPlan& plan = scenario.workloads[i];
    std::uint64_t flows = 0, bytes = 0;
    std::vector<const FlowResult*> own;
    for (const FlowResult& each : result.flows) {
      if (each.flow.workload != i) continue;
      ++flows;
      bytes += each.flow.bytes;
    }
    for (const FlowResult* each : measured(scenario, result)) {
      if (each->flow.workload == i) own.push_back(each);
    }
    Json row{{"label", plan.label},
             {"flows", flows},
             {"load", plan.load},
             {"load_of", capacity_of(plan, scenario, shape).name},
             {"load_counts", plan.counts_headers ? "wire" : "payload"},
             {"mean_bytes", flows == 0 ? 0 : rounded(static_cast<double>(bytes) / static_cast<double>(flows))}};
    row.update(times_and_slowdowns(own));
    rows.push_back(std::move(row));
  }
  return rows;
}

Json links_of(const fabric::LinkCounters& links) {
  Json json;
#define BRDMA_X(member) json[#member] = links.member;
  BRDMA_LINK_COUNTERS(BRDMA_X)
#undef BRDMA_X
  return json;
}

std::string protocols_of(const Scenario& scenario) {
  std::set<std::string> names{scenario.protocol.name};
  for (const GroupPlan& group : scenario.groups) names.insert(group.protocol.name);
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::string estimate_text(const Json& estimate) {
  if (estimate.is_null()) return "-";
  const auto number = [](const Json& value) {
    return value.is_null() ? std::string{"?"} : fixed(value.get<double>(), 2);
  };
  return number(estimate.at("value")) + " (" + number(estimate.at("low")) + " to " + number(estimate.at("high")) + ")";
}

}  // namespace

double slowdown(const FlowResult& flow) {
  return std::max(1.0, static_cast<double>(flow.took->ns()) / static_cast<double>(flow.alone.ns()));
}

std::vector<const FlowResult*> measured(const Scenario& scenario, const RunResult& result) {
  std::vector<const FlowResult*> flows;
  for (std::size_t i = scenario.run.warmup; i < result.flows.size(); ++i) {
    if (result.flows[i].took) flows.push_back(&result.flows[i]);
  }
  return flows;
}

std::vector<SizeBin> size_bins(const std::vector<const FlowResult*>& flows) {
  std::vector<const FlowResult*> sorted = flows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const FlowResult* a, const FlowResult* b) { return a->flow.bytes < b->flow.bytes; });
  const std::size_t each = std::max(kBinFlowsMin, (sorted.size() + kBinsMax - 1) / kBinsMax);
  std::vector<SizeBin> bins;
  for (const FlowResult* flow : sorted) {
    const bool full = bins.empty() || (bins.back().slowdowns.size() >= each && flow->flow.bytes != bins.back().most);
    if (full) bins.push_back({flow->flow.bytes, 0, {}});
    bins.back().most = flow->flow.bytes;
    bins.back().slowdowns.push_back(slowdown(*flow));
  }
  for (SizeBin& bin : bins) std::sort(bin.slowdowns.begin(), bin.slowdowns.end());
  return bins;
}

Json summary_of(const Scenario& scenario, const RunResult& result) {
  const std::vector<const FlowResult*> counting = measured(scenario, result);
  std::uint64_t unfinished = 0, broken = 0, resent = 0;
  for (const FlowResult& each : result.flows) {
    unfinished += each.took ? 0 : 1;
    broken += each.broken;
  }
  for (const auto& [cause, packets] : result.retransmitted) resent += packets;
  Json json{{"scenario", scenario.file},
            {"name", scenario.name},
            {"input_digest", scenario.digest},
            {"digest", digest_of(rows_of(scenario, result))},
            {"seed", result.seed},
            {"protocols", protocols_of(scenario)},
            {"network", fabric::network_text(scenario.network)},
            {"hosts", result.hosts},
            {"switches", result.switches},
            {"workloads", workloads_of(scenario, result)},
            {"flows",
             {{"all", result.flows.size()},
              {"measured", counting.size()},
              {"unfinished", unfinished},
              {"broken", broken},
              {"waited", result.waited}}}};
  json.update(times_and_slowdowns(counting));
  json["by_size"] = by_size(counting);
  const fabric::LinkCounters& links = result.links;
  json["links"] = links_of(links);
  json["drops"] = links.lost + links.burst_lost + links.queue_dropped + links.buffer_dropped + links.random_dropped;
  json["data_packets"] = result.sent;
  json["retransmitted"] = result.retransmitted;
  json["retransmitted_packets"] = resent;
  json["timeouts"] = result.timeouts;
  json["notices"] = result.notices;
  json["rewritten_acks"] = result.rewritten;
  json["packet_events"] = links.forwarded;
  json["length_us"] = rounded(static_cast<double>(result.length.ns()) / 1000);
  return json;
}

std::string rows_of(const Scenario& scenario, const RunResult& result) {
  std::string rows = "flow\tworkload\tfrom\tto\tbytes\tstart_ns\tfct_ns\talone_ns\tslowdown\tbroken\tmeasured\n";
  for (std::size_t i = 0; i < result.flows.size(); ++i) {
    const FlowResult& each = result.flows[i];
    const Flow& flow = each.flow;
    const bool counts = each.took && i >= scenario.run.warmup;
    rows += std::to_string(i + 1) + "\t" + scenario.workloads[flow.workload].label + "\th" +
            std::to_string(flow.from + 1) + "\th" + std::to_string(flow.to + 1) + "\t" + std::to_string(flow.bytes) +
            "\t" + std::to_string(flow.start.ns()) + "\t" + (each.took ? std::to_string(each.took->ns()) : "-") + "\t" +
            std::to_string(each.alone.ns()) + "\t" + (each.took ? fixed(slowdown(each), 6) : "-") + "\t" +
            std::to_string(each.broken) + "\t" + (counts ? "1" : "0") + "\n";
  }
  return rows;
}

std::string digest_of(const std::string& rows) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : rows) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

std::string text_of(const Json& summary) {
  const Json& flows = summary.at("flows");
  const auto whole = [](const Json& value) { return std::to_string(value.get<std::uint64_t>()); };
  std::string text = "flows " + whole(flows.at("measured")) + " of " + whole(flows.at("all")) + ", unfinished " +
                     whole(flows.at("unfinished")) + ", seed " + whole(summary.at("seed")) + ", digest " +
                     summary.at("digest").get<std::string>() + "\n";
  for (const auto& [key, what] : {std::pair{"fct_us", "completion time, us"}, std::pair{"slowdown", "slowdown"}}) {
    text += std::string{what} + " (95 % interval)\n";
    for (const auto& [name, estimate] : summary.at(key).items()) {
      const std::string shown = name == "p999" ? "p99.9" : name;
      text +=
          "  " + shown + std::string(7 - std::min<std::size_t>(6, shown.size()), ' ') + estimate_text(estimate) + "\n";
    }
  }
  return text + "packets: data " + whole(summary.at("data_packets")) + ", dropped " + whole(summary.at("drops")) +
         ", retransmitted " + whole(summary.at("retransmitted_packets")) + "; timeouts " +
         whole(summary.at("timeouts")) + "\n";
}

std::string picture_of(const Scenario& scenario, const Json& summary, const RunResult& result) {
  std::vector<std::uint64_t> took;
  for (const FlowResult* each : measured(scenario, result))
    took.push_back(static_cast<std::uint64_t>(each->took->ns()));
  const std::string title = scenario.name.empty() ? scenario.file : scenario.name;
  const std::string below = summary.at("protocols").get<std::string>() + "; " + std::to_string(result.hosts) +
                            " hosts, " + std::to_string(took.size()) + " flows, seed " + std::to_string(result.seed);
  return samples::picture(
      samples::kTop + samples::kPlotHeight + 55, title, below,
      "<g>\n" + samples::tail_diagram(std::move(took), "flow completion time", samples::kTop) + "</g>\n");
}

Json mean_over_seeds(const std::vector<double>& values) {
  if (values.empty()) return Json();
  const auto n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (const double value : values) sum += value;
  const double mean = sum / n;
  for (const double value : values) squares += (value - mean) * (value - mean);
  Json json{{"value", rounded(mean)}, {"low", Json()}, {"high", Json()}, {"seeds", values.size()}};
  if (values.size() < 2) return json;
  const boost::math::students_t_distribution<double> student{n - 1};
  const double half = boost::math::quantile(student, 0.975) * std::sqrt(squares / (n - 1) / n);
  json["low"] = rounded(mean - half);
  json["high"] = rounded(mean + half);
  return json;
}

}  // namespace brdma::simulator
