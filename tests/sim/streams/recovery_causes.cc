// Parts of the recovery time, and the causes of the longest ones.
//   recovery_causes LOSS_PERCENT [--selective] [--fixed] [--depth PLACES] [--ms MEASURED] [--seeds N] [--stories N]
// Table: the lost packets by cause, their number, their recovery times, and how many of them are in the slowest
// hundredth. Stages of a recovery, medians: until a later packet showed the gap, until the receiver reported it, until
// the report arrived, until a copy left, until it was placed. --stories: the slowest ones, one line each.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "streams/stream.h"

namespace brdma::test {
namespace {

double us(Duration duration) { return static_cast<double>(duration.ns()) / 1000; }

double at_share(std::vector<double>& values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

std::string cause(const LossStory& story) {
  const std::size_t again = story.copies.size() - 1;
  std::string name = again == 1 ? "one copy" : again == 2 ? "two copies" : "more copies";
  if (!story.shown) {
    name += ", nothing came behind it";
  } else if (!story.feedbacks.empty() && !story.first_feedback_heard) {
    name += story.reported && *story.reported < story.copies[1] + kTick ? ", reported by an acknowledgement or again"
                                                                        : ", not reported";
  }
  return name;
}

void print_table(const std::vector<LossStory>& stories, Duration tail) {
  struct Row {
    std::size_t tail = 0;
    std::vector<double> times;
  };
  std::map<std::string, Row> rows;
  for (const LossStory& story : stories) {
    Row& row = rows[cause(story)];
    row.times.push_back(us(story.recovery()));
    row.tail += story.recovery() >= tail ? 1 : 0;
  }
  std::printf("%-52s %8s %8s %8s %8s %8s\n", "cause", "packets", "in tail", "p50 us", "p99 us", "max us");
  for (auto& [name, row] : rows) {
    std::printf("%-52s %8zu %8zu %8.0f %8.0f %8.0f\n", name.c_str(), row.times.size(), row.tail,
                at_share(row.times, 0.5), at_share(row.times, 0.99), at_share(row.times, 1));
  }
}

void print_stages(const std::vector<LossStory>& stories) {
  std::vector<double> shown, said, arrived, left, placed, between;
  for (const LossStory& story : stories) {
    const Instant due = story.first_sent + story.shortest_trip;
    if (story.shown) shown.push_back(us(*story.shown - due));
    if (story.shown && !story.feedbacks.empty()) said.push_back(us(story.feedbacks.front() - *story.shown));
    if (story.reported && !story.feedbacks.empty()) arrived.push_back(us(*story.reported - story.feedbacks.front()));
    if (story.reported) left.push_back(us(story.copies[1] - *story.reported));
    placed.push_back(us(story.placed - story.copies.back()));
    for (std::size_t i = 2; i < story.copies.size(); ++i) between.push_back(us(story.copies[i] - story.copies[i - 1]));
  }
  const auto line = [](const char* name, std::vector<double>& values) {
    std::printf("%-52s %8zu %8.1f %8.1f %8.1f\n", name, values.size(), at_share(values, 0.5), at_share(values, 0.99),
                at_share(values, 1));
  };
  std::printf("%-52s %8s %8s %8s %8s\n", "stage", "packets", "p50 us", "p99 us", "max us");
  line("due -> a later packet arrives", shown);
  line("-> FFM leaves the receiver", said);
  line("-> report arrives", arrived);
  line("-> first copy leaves", left);
  line("last copy leaves -> placed", placed);
  line("a lost copy leaves -> the next one", between);
}

void print_stories(std::vector<LossStory> stories, std::size_t count) {
  std::stable_sort(stories.begin(), stories.end(),
                   [](const LossStory& a, const LossStory& b) { return a.recovery() > b.recovery(); });
  for (std::size_t i = 0; i < std::min(count, stories.size()); ++i) {
    const LossStory& story = stories[i];
    const Instant due = story.first_sent + story.shortest_trip;
    std::printf("%8llu at %.1f: %.0f us:", static_cast<unsigned long long>(story.place), us(due - Instant{}),
                us(story.recovery()));
    if (story.shown) std::printf(" shown %.0f", us(*story.shown - due));
    std::printf(" FFMs");
    for (const Instant at : story.feedbacks) std::printf(" %.0f", us(at - due));
    std::printf(story.first_feedback_heard ? " (first arrived)" : " (first lost)");
    if (story.reported) std::printf(" reported %.0f", us(*story.reported - due));
    std::printf(" copies");
    for (std::size_t c = 1; c < story.copies.size(); ++c) std::printf(" %.0f", us(story.copies[c] - due));
    std::printf("\n");
  }
}

}  // namespace
}  // namespace brdma::test

int main(int argc, char** argv) {
  using namespace brdma;
  using namespace brdma::test;
  StreamConfig config;
  config.loss_history = true;
  config.requests_posted = 64;
  config.measured = 100_ms;
  std::uint64_t seeds = 1;
  std::size_t stories = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto number = [&] { return i + 1 < argc ? std::strtoul(argv[++i], nullptr, 10) : 0ul; };
    if (word == "--selective") {
      config.mode = RecoveryMode::kSelective;
      config.adaptive = false;
    } else if (word == "--fixed") {
      config.adaptive = false;
    } else if (word == "--depth") {
      config.reorder_depth = static_cast<std::uint32_t>(number());
      config.reorder_ppm = 50'000;
    } else if (word == "--ms") {
      config.measured = 1_ms * static_cast<std::int64_t>(number());
    } else if (word == "--seeds") {
      seeds = number();
    } else if (word == "--stories") {
      stories = number();
    } else {
      config.loss_ppm = static_cast<std::uint32_t>(std::strtod(argv[i], nullptr) * 10'000);
    }
  }
  std::vector<LossStory> all;
  for (config.seed = 1; config.seed <= seeds; ++config.seed) {
    const StreamResult result = run_stream(config);
    all.insert(all.end(), result.losses.begin(), result.losses.end());
    std::printf("seed %llu: share %.4f, %llu packets, %llu again, %llu lost\n",
                static_cast<unsigned long long>(config.seed), result.share,
                static_cast<unsigned long long>(result.packets), static_cast<unsigned long long>(result.retransmitted),
                static_cast<unsigned long long>(result.lost + result.queue_dropped));
  }
  std::vector<double> times;
  for (const LossStory& story : all) times.push_back(us(story.recovery()));
  const double tail = at_share(times, 0.99);
  std::printf("%zu repaired: p50 %.0f us, p99 %.0f us, longest %.0f us\n", all.size(), at_share(times, 0.5), tail,
              at_share(times, 1));
  print_table(all, Duration::from_ns(static_cast<std::int64_t>(tail * 1000)));
  print_stages(all);
  print_stories(all, stories);
  return 0;
}
