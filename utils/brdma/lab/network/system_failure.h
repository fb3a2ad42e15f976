// utils/brdma/lab/network/system_failure.h - a failed system call: its purpose, and errno's reason.
#pragma once

#include <cerrno>
#include <string>
#include <system_error>

namespace brdma::lab {

[[noreturn]] inline void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace brdma::lab
