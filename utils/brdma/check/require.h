// check/require.h - `brdma run --require`: a program that makes no queue pair of this library is an error. The library
// in the program, and in its children, writes a line into a file when it makes its first one
// (provider/verbs/use_record.h).
#pragma once

#include <functional>

namespace brdma::check {

// Runs `program` (it returns only on failure, with an exit code) in a child that knows the file, and waits for it.
// Returns its exit code, 128 and the signal's number for one that a signal ended; 1, with a sentence on standard error,
// where it ended with 0 and no queue pair was made. Throws std::runtime_error if there is no place for the file.
[[nodiscard]] int run_required(const char* name, const std::function<int()>& program);

}  // namespace brdma::check
