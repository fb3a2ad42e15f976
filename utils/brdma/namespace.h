// namespace.h - `brdma run --namespace`: a mount namespace in which the device files are there for every program, and
// in which every program is given the library, whatever its environment says. For programs that start others with an
// empty environment, for static ones that look for the files themselves, and, as root, for set-user-ID programs.
//   /etc/ld.so.preload                              the library; the loader of glibc reads it at each exec
//   /sys/class/infiniband*, /dev/infiniband         what is listed there now, beside what the kernel has
// /etc, /dev and /sys/class are covered by a read-only file system of ours, in which everything that was there is bound
// again. Nothing outside changes; the namespace ends with its last process.
#pragma once

#include <stdexcept>
#include <string>

namespace brdma {

// This machine does not allow it, or lacks what it needs; says what to do next.
struct NamespaceRefused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// This process and its children from now on. Without the right to mount it makes a user namespace too, in which it is
// who it was. Only with one thread. Throws NamespaceRefused, after which the process should end.
void enter_namespace(const std::string& library);

}  // namespace brdma
