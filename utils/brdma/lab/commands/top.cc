#include "lab/commands/top.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/units.h"
#include "io/shard/clock.h"
#include "lab/processes/client.h"

namespace brdma::lab {
namespace {

// A queue's state at a sample.
struct Sight {
  std::string host;
  std::uint64_t bytes = 0, longest = 0;             // of the queue: now, maximum
  std::uint64_t sent = 0, dropped = 0, marked = 0;  // bytes, packets, packets; in all
};

std::vector<Sight> look(const Json& show) {
  std::vector<Sight> sights;
  for (const Json& host : show.at("hosts")) {
    const Json& link = host.at("to_host");
    const auto of_link = [&link](const char* name) { return link.at(name).get<std::uint64_t>(); };
    Sight sight{host.at("host"), host.at("queue").at("bytes"), host.at("queue").at("longest")};
    sight.sent = of_link("bytes");
    sight.marked = of_link("marked");
    for (const char* reason : {"lost", "burst_lost", "queue_dropped", "buffer_dropped", "random_dropped"}) {
      sight.dropped += of_link(reason);
    }
    sights.push_back(std::move(sight));
  }
  return sights;
}

std::string bar(std::uint64_t bytes, std::uint64_t longest) {
  constexpr std::size_t kWidth = 20;
  const auto filled = static_cast<std::size_t>(longest == 0 ? 0 : std::min(bytes, longest) * kWidth / longest);
  return std::string(filled, '#') + std::string(kWidth - filled, '.');
}

Json row_of(const Sight& now, const Sight& before, double seconds) {
  const auto rate = [seconds](std::uint64_t to, std::uint64_t from) {
    return static_cast<std::uint64_t>(static_cast<double>(to - from) / seconds);
  };
  return {{"host", now.host},
          {"queue_bytes", now.bytes},
          {"queue_longest", now.longest},
          {"bits_per_second", rate(now.sent * 8, before.sent * 8)},
          {"drops_per_second", rate(now.dropped, before.dropped)},
          {"marks_per_second", rate(now.marked, before.marked)}};
}

void print_rows(const Json& rows, bool over_the_last) {
  if (over_the_last) std::printf("\033[%zuA\033[J", rows.size() + 1);
  std::vector<std::vector<std::string>> table{
      {"to", "queue, bytes", "of the longest", "longest", "Mbit/s", "drops/s", "marks/s"}};
  const auto number = [](const Json& row, const char* name) { return row.at(name).get<std::uint64_t>(); };
  for (const Json& row : rows) {
    const std::uint64_t bytes = number(row, "queue_bytes"), longest = number(row, "queue_longest");
    table.push_back({row.at("host"), grouped(bytes), bar(bytes, longest), grouped(longest),
                     grouped(number(row, "bits_per_second") / 1'000'000), grouped(number(row, "drops_per_second")),
                     grouped(number(row, "marks_per_second"))});
  }
  print_table(table);
}

}  // namespace

void watch_queues(const LabOptions& options, const OutputStyle& style) {
  const bool terminal = !style.json && isatty(STDOUT_FILENO) != 0;
  std::vector<Sight> before = look(show_switch(options.plan.name));
  Instant then = io::monotonic_now();
  for (std::uint32_t looks = 0; options.count == 0 || looks < options.count; ++looks) {
    (void)poll(nullptr, 0, static_cast<int>(options.interval_ms));
    std::vector<Sight> sights = look(show_switch(options.plan.name));
    const Instant now = io::monotonic_now();
    Json rows = Json::array();
    for (std::size_t i = 0; i < sights.size(); ++i) {
      rows.push_back(row_of(sights[i], before[i], static_cast<double>((now - then).ns()) / 1e9));
    }
    if (style.json) {
      print_json(rows, style);
    } else {
      print_rows(rows, terminal && looks != 0);
    }
    flush_output();
    before = std::move(sights);
    then = now;
  }
}

}  // namespace brdma::lab
