// values/options.h - the command line of brdma-perf.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "values/plan.h"

namespace brdma::perf {

constexpr std::uint16_t kPort = 18'520;

struct Options {
  enum class Kind { kServer, kClient, kCompare, kDone };
  Kind kind = Kind::kServer;
  int exit_code = 0;  // of kDone: help or version was printed, or the misuse explained

  Plan plan;
  std::string address;  // of the server
  std::uint16_t port = kPort;
  bool serve_on = false;  // server: the next run after each

  std::string device;
  int device_port = 1;
  int gid_index = -1;  // -1: the one that fits the address
  bool ours = false;   // only devices of libbitmaprdma

  std::int64_t duration = 3'000'000'000;  // ns
  std::uint64_t messages = 0;             // instead of the duration; fct: flows
  std::optional<std::int64_t> warmup;     // ns; none: found in the series
  std::int64_t interval = 100'000'000;    // ns
  std::string sizes;                      // a mix of flow sizes
  std::int64_t every = 0;                 // ns, mean time between flows; 0: the next when one is complete

  bool json = false;
  std::string svg;
  std::vector<std::string> compare;  // two files
};

// Parses; prints help, version or the misuse itself (kDone).
[[nodiscard]] Options parse_options(int argc, const char* const* argv);

}  // namespace brdma::perf
