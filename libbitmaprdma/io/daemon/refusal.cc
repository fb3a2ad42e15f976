#include "io/daemon/refusal.h"

#include <cerrno>
#include <cstring>

namespace brdma::io {
namespace {

const char* advice(int error) {
  switch (error) {
    case EMFILE:
      return "this process has as many descriptors open as it may: close some, or raise 'ulimit -n'";
    case ENFILE:
      return "this machine has as many files open as it may: raise 'sysctl fs.file-max'";
    case ENOMEM:
    case ENOBUFS:
      return "the kernel has no memory for it: see the limits of the machine and of this cgroup";
    case EAFNOSUPPORT:
      return "a sandbox or this kernel knows no such sockets: allow AF_UNIX, AF_INET and AF_INET6 (systemd: "
             "RestrictAddressFamilies=)";
    case EACCES:
    case EPERM:
      return "a security policy forbids it (SELinux, AppArmor, a seccomp filter): have it allow this program";
    case ENOSYS:
      return "a seccomp filter refuses this system call: have it allow this program";
    case EAGAIN:
      return "this user has as many processes and threads as it may: raise 'ulimit -u'";
    default:
      return nullptr;
  }
}

}  // namespace

std::string refusal(std::string_view what, int error) {
  std::string sentence(what);
  sentence += ": ";
  sentence += std::strerror(error);  // NOLINT(concurrency-mt-unsafe): glibc's is, since 2.32
  if (const char* const words = advice(error)) {
    sentence += ": ";
    sentence += words;
  }
  return sentence;
}

}  // namespace brdma::io
