// support/own_syscall.h - for a test program that defines syscall(2) itself, to answer some calls in the kernel's
// place.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdarg>

namespace brdma::test {

// Arguments of a call. `list` begins behind its number.
class SyscallArguments {
 public:
  explicit SyscallArguments(std::va_list& list) {
    for (long& each : with_) each = va_arg(list, long);
  }
  [[nodiscard]] long operator[](std::size_t at) const { return with_[at]; }
  // The kernel's answer.
  [[nodiscard]] long pass_on(long number) const {
    using Real = long (*)(long, ...);
    static const auto real = reinterpret_cast<Real>(::dlsym(RTLD_NEXT, "syscall"));
    return real(number, with_[0], with_[1], with_[2], with_[3], with_[4], with_[5]);
  }

 private:
  std::array<long, 6> with_{};
};

}  // namespace brdma::test
