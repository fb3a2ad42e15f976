// namespace.h - `brdma run --namespace`: a mount namespace in which every program sees the device files and gets the
// library, whatever its environment is. For programs that start others with an empty environment, for static ones that
// look for the files themselves, and, as root, for set-user-ID programs.
//   /etc/ld.so.preload                              the library; the loader of glibc reads it at each exec
//   /sys/class/infiniband*, /dev/infiniband         the devices listed there now, beside the kernel's
// /etc, /dev and /sys/class are covered by a read-only file system, in which every original entry is bound again.
// Nothing outside changes; the namespace ends with its last process.
#pragma once

#include <stdexcept>
#include <string>

namespace brdma {

// This machine does not allow it, or lacks a part; names the next step.
struct NamespaceRefused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Affects this process and its later children. Without the right to mount it makes a user namespace too, with the same
// user. Only with one thread. Throws NamespaceRefused, after which the process should end.
void enter_namespace(const std::string& library);

}  // namespace brdma
