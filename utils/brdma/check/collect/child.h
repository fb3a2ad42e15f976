// collect/child.h - a child process with a deadline, and its output.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace brdma::check {

struct ChildRun {
  bool in_time = true;                // else it was killed
  int exit_code = 0;                  // 128 and the signal's number for one that a signal ended
  std::string output;                 // at most 1 MiB
  std::vector<std::string> messages;  // lines of standard error, at most 64 of 1,000 bytes
  std::string error;                  // it could not be started
};
// `program` runs in the child; it returns only on failure, with an exit code. Ends when both streams have ended, or
// after `seconds`.
[[nodiscard]] ChildRun run_child(const std::function<int()>& program, unsigned seconds);

}  // namespace brdma::check
