// programs.h - paths of this project's parts, relative to the running `brdma`: in the build tree all programs are in
// bin/ and the library in lib/ beside it; installed, in <prefix>/bin and the configured library directory.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace brdma {

struct ProgramMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The running program, resolved; also without /proc.
[[nodiscard]] std::string own_program();
// Its directory.
[[nodiscard]] std::string own_directory();
// Absolute path of brdma-switch, brdmad, ... Throws ProgramMissing with the remedy.
[[nodiscard]] std::string find_own_program(const std::string& name);
// The file that execvp(3) would take; empty: none.
[[nodiscard]] std::string find_in_path(const std::string& program);
// The same of brdma-metrics, which only some builds have.
[[nodiscard]] std::string metrics_program();
// Absolute path of libbitmaprdma.so. Throws ProgramMissing.
[[nodiscard]] std::string find_library();

// Names and values of the environment with which a program finds the RDMA devices: LD_PRELOAD with the library at its
// end. The loader splits LD_PRELOAD at spaces and colons. A library whose path has one is named there without its
// directory, and the directory comes first in LD_LIBRARY_PATH, which is split at colons and semicolons only. Throws
// ProgramMissing if neither works.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> preload_environment(const std::string& library);

// Replaces this process by the program, from PATH or beside `brdma`. Returns only on failure: 127 not found, 126 not
// executable, as env(1) does, with a message on standard error.
[[nodiscard]] int exec_program(char* const* argv);
// The same, with the library preloaded.
[[nodiscard]] int exec_with_devices(const std::string& library, char* const* argv);

}  // namespace brdma
