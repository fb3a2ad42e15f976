// sim_worlds [--seeds N] [--from S] [--trace] [--keep-going] [--canary] [--write FILE | --compare FILE]
// Runs N random worlds from seed S on; prints "N seeds, F failed" and for each failure the findings and the command
// that replays it with its trace. Exit code 1 if any failed, 2 on misuse. With --canary one byte is corrupted in each
// world, and 0 means that every corruption was found. --write makes a file of each world's packets on the wire and
// their times, one number a seed; --compare with that of another build names the seeds that differ, and fails if any
// does.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/check.h"
#include "worlds/random_world.h"

namespace {

struct Options {
  std::uint64_t seeds = 2000;
  std::uint64_t from = 1;
  bool trace = false;
  bool keep_going = false;
  bool canary = false;
  std::string write, compare;
  [[nodiscard]] bool digest() const { return !write.empty() || !compare.empty(); }
};

[[noreturn]] void misuse() {
  std::fputs(
      "usage: sim_worlds [--seeds N] [--from S] [--trace] [--keep-going] [--canary] [--write FILE | --compare FILE]\n",
      stderr);
  std::exit(2);
}

std::uint64_t number(const char* text) {
  char* end = nullptr;
  const std::uint64_t value = text == nullptr ? 0 : std::strtoull(text, &end, 10);
  if (text == nullptr || end == text || *end != '\0') misuse();
  return value;
}

Options parse(char** argv) {
  Options options;
  for (++argv; *argv != nullptr; ++argv) {
    const std::string_view word{*argv};
    if (word == "--seeds") {
      options.seeds = number(*++argv);
    } else if (word == "--from") {
      options.from = number(*++argv);
    } else if (word == "--trace") {
      options.trace = true;
    } else if (word == "--keep-going") {
      options.keep_going = true;
    } else if (word == "--canary") {
      options.canary = true;
    } else if (word == "--write" || word == "--compare") {
      if (*++argv == nullptr) misuse();
      (word == "--write" ? options.write : options.compare) = *argv;
    } else {
      misuse();
    }
  }
  return options;
}

using brdma::test::WorldMode;

// The numbers of seeds in a file that --write has made, and of this run.
class Digests {
 public:
  explicit Digests(const Options& options) {
    if (!options.compare.empty()) {
      std::ifstream file(options.compare);
      std::uint64_t seed = 0, digest = 0;
      while (file >> std::dec >> seed >> std::hex >> digest) expected_[seed] = digest;
    }
    if (!options.write.empty()) out_.open(options.write);
  }
  // False: different from the expected one, or none was expected.
  bool note(std::uint64_t seed, std::uint64_t digest) {
    if (out_.is_open()) {
      out_ << std::dec << seed << ' ' << std::hex << digest << '\n';
      return out_.good();
    }
    const auto found = expected_.find(seed);
    return found != expected_.end() && found->second == digest;
  }

 private:
  std::map<std::uint64_t, std::uint64_t> expected_;
  std::ofstream out_;
};

struct Totals {
  std::uint64_t worlds = 0, packets = 0, lost = 0, retransmitted = 0, bytes = 0, group_messages = 0, fetched = 0;
  std::uint64_t by_cause[brdma::kRetransmissions.size()] = {};

  void add(const brdma::test::WorldResult& result) {
    ++worlds;
    packets += result.packets;
    lost += result.lost;
    retransmitted += result.retransmitted;
    bytes += result.bytes;
    group_messages += result.group_messages;
    fetched += result.fetched;
    for (std::size_t i = 0; i < std::size(by_cause); ++i) by_cause[i] += result.by_cause[i];
  }
  void print(WorldMode mode) const {
    constexpr const char* kNames[] = {"bitmap", "selective", "standard", "go-back-N", "wan"};
    std::printf("  %-9s %6llu worlds %9llu packets %7llu lost or spoilt %8llu retransmitted (%.2f each) %5llu MB\n",
                kNames[static_cast<std::size_t>(mode)], static_cast<unsigned long long>(worlds),
                static_cast<unsigned long long>(packets), static_cast<unsigned long long>(lost),
                static_cast<unsigned long long>(retransmitted),
                lost == 0 ? 0.0 : static_cast<double>(retransmitted) / static_cast<double>(lost),
                static_cast<unsigned long long>(bytes >> 20));
    std::printf("            retransmitted:");
    for (std::size_t i = 0; i < std::size(by_cause); ++i) {
      std::printf("%s %s %llu", i == 0 ? "" : ",",
                  brdma::kCounterNames[static_cast<std::size_t>(brdma::kRetransmissions[i])].data(),
                  static_cast<unsigned long long>(by_cause[i]));
    }
    std::printf("; %llu messages of other kinds; %llu packets of data fetched\n",
                static_cast<unsigned long long>(group_messages), static_cast<unsigned long long>(fetched));
  }
};

brdma::test::WorldResult run(std::uint64_t seed, const Options& options) {
  try {
    return brdma::test::run_random_world(
        seed, {.traced = options.trace, .digest = options.digest(), .canary = options.canary});
  } catch (const std::exception& error) {  // a failed internal check
    brdma::test::WorldResult result;
    result.findings.push_back(error.what());
    return result;
  }
}

}  // namespace

int main(int, char** argv) {
  const Options options = parse(argv);
  brdma::set_check_handler([](const char* expression, const brdma::CheckPlace& where) {
    throw std::runtime_error(std::string{"check failed: "} + expression + " (" + where.file + ":" +
                             std::to_string(where.line) + ")");
  });
  constexpr std::uint64_t kFailuresShown = 5;
  std::uint64_t failed = 0, run_count = 0, different = 0;
  Digests digests(options);
  Totals by_mode[5];
  const auto began = std::chrono::steady_clock::now();
  for (std::uint64_t seed = options.from; seed < options.from + options.seeds; ++seed, ++run_count) {
    const auto result = run(seed, options);
    by_mode[static_cast<std::size_t>(result.mode)].add(result);
    if (options.trace) std::fputs((result.trace + result.settings).c_str(), stdout);
    if (options.digest() && !digests.note(seed, result.digest) && ++different <= kFailuresShown)
      std::printf("seed %llu differs\n", static_cast<unsigned long long>(seed));
    if (result.ok()) continue;
    if (++failed > kFailuresShown && !options.keep_going) continue;
    if (options.canary) continue;
    std::printf("seed %llu failed; replay with: build/bin/sim_worlds --seeds 1 --from %llu --trace\n",
                static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed));
    for (const auto& finding : result.findings) std::printf("  %s\n", finding.c_str());
    std::fputs(result.settings.c_str(), stdout);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  std::printf("%llu seeds, %llu failed   (%.0f seeds/s)\n", static_cast<unsigned long long>(run_count),
              static_cast<unsigned long long>(failed), static_cast<double>(run_count) / took.count());
  for (const WorldMode mode :
       {WorldMode::kBitmap, WorldMode::kSelective, WorldMode::kStandard, WorldMode::kGoBackN, WorldMode::kWan}) {
    by_mode[static_cast<std::size_t>(mode)].print(mode);
  }
  if (options.digest()) std::printf("%llu differ\n", static_cast<unsigned long long>(different));
  return failed == (options.canary ? run_count : 0) && different == 0 ? 0 : 1;
}
