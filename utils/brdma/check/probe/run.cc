// The words behind `brdma check-probe`.

#include <cstdio>

#include "check/probe/probe.h"

namespace brdma::probe {
namespace {

int dispatch(const std::vector<std::string>& words) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "local" && words.size() == 1) return run_local();
  if (what == "connect" && words.size() == 3) return run_connect(words[1], words[2]);
  if (what == "listen" && words.size() >= 2) return run_listen(words[1], words.size() > 2);
  std::fprintf(stderr, "brdma: check-probe is a part of 'brdma check'\n");
  return 2;
}

}  // namespace

int run(const std::vector<std::string>& words) {
  try {
    return dispatch(words);
  } catch (const StepFailed& failed) {
    std::fprintf(stderr, "brdma: %s\n", failed.what());
    return 1;
  }
}

}  // namespace brdma::probe
