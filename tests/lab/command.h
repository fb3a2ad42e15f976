// tests/lab/command.h - runs programs: to their end, or in the background with their output at hand.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace brdma::lab_test {

struct Outcome {
  int exit_code = -1;  // 128 + n for signal n; -1: did not end in time, and was killed
  std::string out, err;
};

// A running program. Killed when this goes out of scope.
class Command {
 public:
  explicit Command(const std::vector<std::string>& words, const std::string& input = {});
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  // Reads standard output until it holds `text` or the program ends or it takes too long.
  [[nodiscard]] bool wait_for_output(const std::string& text, int timeout_ms = 15'000);
  [[nodiscard]] Outcome finish(int timeout_ms = 40'000);
  void send_signal(int signal);

 private:
  bool read_some(int timeout_ms);  // false: nothing came, or both ends are closed
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
  Outcome outcome_;
};

[[nodiscard]] Outcome run(const std::vector<std::string>& words, const std::string& input = {});

}  // namespace brdma::lab_test
