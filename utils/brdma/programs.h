// programs.h - where the parts of this project lie, seen from the running `brdma`: in the build tree all programs are
// in bin/ and the library in lib/ beside it; installed, in <prefix>/bin and the library directory that was configured.
#pragma once

#include <stdexcept>
#include <string>

namespace brdma {

struct ProgramMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The directory of the running program, resolved.
[[nodiscard]] std::string own_directory();
// Absolute path of brdma-switch, brdmad, ... Throws ProgramMissing with what to do.
[[nodiscard]] std::string find_own_program(const std::string& name);
// Absolute path of libbitmaprdma.so. Throws ProgramMissing.
[[nodiscard]] std::string find_library();

// What LD_PRELOAD must be so that a program finds the RDMA devices: the present value with the library at its end.
[[nodiscard]] std::string preload_value(const std::string& library);

// Replaces this process by the program. Returns only on failure: 127 not found, 126 not executable, as env(1) does,
// with a message on standard error.
[[nodiscard]] int exec_program(char* const* argv);
// The same, with LD_PRELOAD set.
[[nodiscard]] int exec_with_devices(const std::string& library, char* const* argv);

}  // namespace brdma
