// attack_verbs - the two verbs programs of the attack by a hostile peer (hostile.py). Both end with standard input and
// then print their results as JSON; exit code 1 with a sentence on any wrong result.
//   attack_verbs victim HOSTILE SEED [plant]      "listening" first
//   attack_verbs honest VICTIM SEED
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "honest.h"
#include "victim.h"

namespace {

using namespace brdma::attacks;  // a program, no header
using Count = unsigned long long;

int be_victim(const VictimOptions& options) {
  Victim victim{options};
  std::puts("listening");
  std::fflush(stdout);
  const std::string found = victim.run();
  const VictimFigures& f = victim.figures();
  std::printf(
      "{\"accepted\":%llu,\"connected\":%llu,\"honest\":%llu,\"messages\":%llu,\"completed\":%llu,\"failed\":%llu,"
      "\"looks\":%llu}\n",
      Count{f.accepted}, Count{f.connected}, Count{f.honest}, Count{f.messages}, Count{f.completed}, Count{f.failed},
      Count{f.looks});
  if (found.empty()) return 0;
  std::fprintf(stderr, "attack_verbs: %s\n", found.c_str());
  return 1;
}

int be_honest(const char* victim, std::uint64_t seed) {
  const HonestFigures f = talk_honestly(victim, seed);
  std::printf("{\"rounds\":%llu,\"connections\":%llu,\"longest_ms\":%.1f,\"longest_connect_ms\":%.1f}\n",
              Count{f.rounds}, Count{f.connections}, f.longest * 1e3, f.longest_connect * 1e3);
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count < 4) return 2;
  const std::uint64_t seed = std::strtoull(words[3], nullptr, 10);
  try {
    if (std::strcmp(words[1], "victim") == 0)
      return be_victim({.hostile = words[2], .seed = seed, .plant = count > 4 && std::strcmp(words[4], "plant") == 0});
    if (std::strcmp(words[1], "honest") == 0) return be_honest(words[2], seed);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "attack_verbs: %s\n", error.what());
    return 1;
  }
  return 2;
}
