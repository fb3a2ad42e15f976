// options.h - the command line of brdma-sim, made from the rows of utils/brdma/grammar/sim_commands.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace brdma::simulator {

// Values of one key to combine with others: "protocol.name" and its values.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};
// The K-th (from 1) of N parts.
struct Part {
  std::uint32_t number = 1, of = 1;
};

struct Options {
  enum class Kind { kRun, kSweep, kDone };
  Kind kind = Kind::kDone;
  int exit_code = 0;  // of kDone: help or version was printed, or the misuse explained
  std::string scenario;
  std::string output;  // folder; empty: nothing is written
  std::vector<std::string> changes;
  bool json = false;
  std::optional<std::uint64_t> seed;  // of run
  std::vector<std::string> loads;     // of sweep
  std::vector<std::string> seeds;
  std::vector<Axis> axes;
  std::uint32_t jobs = 1;
  Part part;
};

// Prints help, version or the misuse itself (kDone).
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

// "0.1..0.9", "0.1..0.9/0.2", "0.3,0.5": with as many digits as the words have. Throws samples::Misuse. At most 10,000.
[[nodiscard]] std::vector<std::string> parse_list(const std::string& text, const std::string& step);
// "2/8". Throws samples::Misuse.
[[nodiscard]] Part parse_part(const std::string& text);
// From the variables of a launcher: MPI (Open MPI, MPICH, Slurm's PMI), a Slurm array. Without one: the whole.
[[nodiscard]] Part part_of_launcher();

}  // namespace brdma::simulator
