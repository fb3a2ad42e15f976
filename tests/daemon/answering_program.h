// tests/daemon/answering_program.h - programs that answer brdmad's queries as they like, and what brdma makes of it.
#pragma once

#include <sys/types.h>

#include <string>

#include "daemon_fixture.h"

namespace brdma::test {

// Answers each query once, like a program whose library answers so; "%" stands for the query's number, and "no key"
// becomes "a key!" where keys may be seen. An empty answer: it ends instead. Signals at `leased`. Body of a Child.
int answer_once_each(const std::string& program, const std::string& answer, const Gate& leased);
void wait_for_lease(const Gate& leased);

struct Said {
  int code = 0;
  std::string text;  // standard output and standard error
};
// The words go through a shell. `uid` 0: as this process.
[[nodiscard]] Said run_brdma(uid_t uid, const std::string& words);

[[nodiscard]] inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace brdma::test
