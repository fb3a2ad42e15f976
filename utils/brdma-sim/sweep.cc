#include "sweep.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "results/files.h"
#include "samples/errors.h"
#include "samples/quantities.h"
#include "scenario/scenario_file.h"

namespace brdma::simulator {
namespace {

using samples::RunError;

std::string safe(std::string text) {
  for (char& c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && std::strchr("._-=", c) == nullptr) c = '_';
  }
  return text;
}

std::string folder_of(const Options& options, const Point& point) { return options.output + "/points/" + point.name(); }

std::vector<std::string> all_changes(const Options& options, const Point& point) {
  std::vector<std::string> changes = options.changes;
  for (std::string& each : point.changes()) changes.push_back(std::move(each));
  return changes;
}

// Its result, if it is done. A result of another scenario is refused: it would be mixed in silently.
std::optional<Json> result_of(const Options& options, const Point& point) {
  const std::string folder = folder_of(options, point);
  auto summary = read_json(folder + "/summary.json");
  if (!summary) return std::nullopt;
  const Scenario wanted = read_scenario(options.scenario, all_changes(options, point));
  if (summary->value("input_digest", std::uint64_t{0}) != wanted.digest) {
    throw RunError(folder + " has results of another scenario or other --set: choose another -o, or remove it");
  }
  return summary;
}

std::string own_program() {
  std::error_code error;
  const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) throw RunError("cannot find the program itself: is /proc there?");
  return path.string();
}

// Starts one point. Its text goes to DIR/points/NAME/log.
pid_t start(const Options& options, const Point& point) {
  const std::string folder = folder_of(options, point);
  make_folder(folder);
  std::vector<std::string> words{own_program(), "run", options.scenario, "--output", folder};
  if (!point.seed.empty()) words.insert(words.end(), {"--seed", point.seed});
  for (const std::string& each : all_changes(options, point)) words.insert(words.end(), {"--set", each});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = folder + "/log";
  const pid_t child = fork();
  if (child < 0) throw RunError(std::string{"cannot start a process: "} + std::strerror(errno));
  if (child > 0) return child;
  const int file = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file >= 0 && dup2(file, 1) >= 0 && dup2(file, 2) >= 0) execv(argv[0], argv.data());
  _exit(1);
}

// Keeps `jobs` points running until all have been; returns how many failed.
class Runner {
 public:
  explicit Runner(const Options& options) : options_(options), terminal_(isatty(2) != 0) {}

  std::size_t run(const std::vector<Point>& points) {
    for (const Point& point : points) {
      while (running_.size() >= options_.jobs) wait_for_one(points.size());
      running_.emplace(start(options_, point), point.name());
    }
    while (!running_.empty()) wait_for_one(points.size());
    if (terminal_ && !points.empty()) std::fputs("\n", stderr);
    return failed_;
  }

 private:
  void wait_for_one(std::size_t all) {
    int status = 0;
    pid_t ended = 0;
    while ((ended = wait(&status)) < 0 && errno == EINTR) {
    }
    const auto found = running_.find(ended);
    if (found == running_.end()) return;
    ++ended_;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      ++failed_;
      std::fprintf(stderr, "%sbrdma sim: point %s failed: see %s/points/%s/log\n", terminal_ ? "\n" : "",
                   found->second.c_str(), options_.output.c_str(), found->second.c_str());
    }
    running_.erase(found);
    if (terminal_) std::fprintf(stderr, "\rpoints %zu of %zu", ended_, all);
  }

  const Options& options_;
  bool terminal_;
  std::map<pid_t, std::string> running_;
  std::size_t ended_ = 0, failed_ = 0;
};

const Json& value_at(const Json& summary, const char* group, const char* name) {
  static const Json kNone;
  const Json& estimate = summary.at(group).at(name);
  return estimate.is_null() ? kNone : estimate.at("value");
}

constexpr std::array kEstimates{"mean", "p50", "p95", "p99", "p999"};

}  // namespace

std::string Point::group() const {
  std::string text = load.empty() ? "load=file" : "load=" + load;
  for (const auto& [key, value] : values) text += "_" + key + "=" + value;
  return safe(text);
}
std::string Point::name() const { return group() + "_seed=" + (seed.empty() ? "file" : safe(seed)); }

std::vector<std::string> Point::changes() const {
  std::vector<std::string> changes;
  if (!load.empty()) changes.push_back("workload.load=" + load);
  for (const auto& [key, value] : values) changes.push_back(key + "=" + value);
  return changes;
}

std::vector<Point> points_of(const Options& options) {
  std::vector<Point> points{Point{}};
  const auto multiply = [&points](const std::vector<std::string>& values, const auto& set) {
    if (values.empty()) return;
    std::vector<Point> more;
    for (const Point& point : points) {
      for (const std::string& value : values) {
        more.push_back(point);
        set(more.back(), value);
      }
    }
    points = std::move(more);
  };
  for (const Axis& axis : options.axes) {
    multiply(axis.values, [&](Point& point, const std::string& value) { point.values.emplace_back(axis.key, value); });
  }
  multiply(options.loads, [](Point& point, const std::string& load) { point.load = load; });
  multiply(options.seeds, [](Point& point, const std::string& seed) { point.seed = seed; });
  return points;
}

std::vector<Point> points_of(const std::vector<Point>& all, const Part& part) {
  std::vector<Point> own;
  for (std::size_t i = part.number - 1; i < all.size(); i += part.of) own.push_back(all[i]);
  return own;
}

std::string point_rows(const std::vector<DonePoint>& done) {
  std::string rows =
      "point\tload\tseed\tprotocols\tflows\tunfinished\tmean_us\tp50_us\tp95_us\tp99_us\tp999_us\tslowdown_p50\t"
      "slowdown_p99\tdata_packets\tdrops\tretransmitted\ttimeouts\tdigest\n";
  const auto number = [](const Json& value) {
    return value.is_null()           ? std::string{"-"}
           : value.is_number_float() ? samples::fixed(value.get<double>(), 3)
                                     : value.dump();
  };
  for (const DonePoint& each : done) {
    const Json& s = each.summary;
    rows += each.point.name() + "\t" + number(s.at("workloads").at(0).at("load")) + "\t" + number(s.at("seed")) + "\t" +
            s.at("protocols").get<std::string>() + "\t" + number(s.at("flows").at("measured")) + "\t" +
            number(s.at("flows").at("unfinished"));
    for (const char* name : kEstimates) rows += "\t" + number(value_at(s, "fct_us", name));
    for (const char* name : {"p50", "p99"}) rows += "\t" + number(value_at(s, "slowdown", name));
    for (const char* key : {"data_packets", "drops", "retransmitted_packets", "timeouts"})
      rows += "\t" + number(s.at(key));
    rows += "\t" + s.at("digest").get<std::string>() + "\n";
  }
  return rows;
}

// The points of one row, that differ in the seed alone.
using Group = std::vector<const DonePoint*>;

std::vector<double> values_of(const Group& group, const char* what, const char* estimate) {
  std::vector<double> values;
  for (const DonePoint* each : group) {
    const Json& value = value_at(each->summary, what, estimate);
    if (!value.is_null()) values.push_back(value.get<double>());
  }
  return values;
}

Json mean_row(const std::string& name, const Group& group) {
  Json row{{"point", name},
           {"load", group[0]->summary.at("workloads").at(0).at("load")},
           {"protocols", group[0]->summary.at("protocols")}};
  for (const char* what : {"fct_us", "slowdown"}) {
    for (const char* estimate : kEstimates) row[what][estimate] = mean_over_seeds(values_of(group, what, estimate));
  }
  for (const char* key : {"data_packets", "drops", "retransmitted_packets", "timeouts"}) {
    std::uint64_t sum = 0;
    for (const DonePoint* each : group) sum += each->summary.at(key).get<std::uint64_t>();
    row[key] = sum;
  }
  return row;
}

Json means_of(const std::vector<DonePoint>& done) {
  std::map<std::string, Group> groups;
  std::vector<std::string> order;
  for (const DonePoint& each : done) {
    Group& group = groups[each.point.group()];
    if (group.empty()) order.push_back(each.point.group());
    group.push_back(&each);
  }
  Json rows = Json::array();
  for (const std::string& name : order) rows.push_back(mean_row(name, groups.at(name)));
  return rows;
}

int run_sweep(const Options& options) {
  const std::vector<Point> all = points_of(options);
  std::vector<Point> wanted;
  for (const Point& point : points_of(all, options.part)) {
    (void)read_scenario(options.scenario, all_changes(options, point));  // errors before the first point runs
    if (!result_of(options, point)) wanted.push_back(point);
  }
  const std::size_t failed = Runner{options}.run(wanted);
  std::vector<DonePoint> done;
  for (const Point& point : all) {
    if (auto summary = result_of(options, point)) done.push_back({point, std::move(*summary)});
  }
  const Json means = means_of(done);
  make_folder(options.output);
  write_file(options.output + "/points.tsv", point_rows(done));
  write_file(options.output + "/sweep.json", means.dump(2) + "\n");
  if (options.json) {
    std::printf("%s\n", means.dump().c_str());
  } else {
    std::printf("points: %zu of %zu are done, %zu of them now; %s/points.tsv, sweep.json\n", done.size(), all.size(),
                wanted.size() - failed, options.output.c_str());
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace brdma::simulator
