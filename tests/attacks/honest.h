// tests/attacks/honest.h - a peer of the victim that keeps to the rules: writes, reads its data back, sends and gets
// replies, and measures the time.
#pragma once

#include <cstdint>
#include <string>

namespace brdma::attacks {

struct HonestFigures {
  std::uint64_t rounds = 0, connections = 0;
  double longest = 0, longest_connect = 0;  // seconds
};

// Until standard input ends. Throws std::runtime_error on any wrong result.
[[nodiscard]] HonestFigures talk_honestly(const std::string& victim, std::uint64_t seed);

}  // namespace brdma::attacks
