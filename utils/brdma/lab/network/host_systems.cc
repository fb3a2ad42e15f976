#include "lab/network/host_systems.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "lab/network/host_networks.h"
#include "lab/network/system_failure.h"

namespace brdma::lab {
namespace {

// A file system that covers it for a moment: files of ours are bound from there, and none stays on a disk.
constexpr const char* kCovered = "/tmp";

bool put(const std::string& path, const std::string& text) {
  const io::FileDescriptor file{open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644)};
  return file.valid() && fchmod(file.get(), 0644) == 0 &&
         write(file.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

bool bind_text(const std::string& text, const char* target) {
  const std::string source = std::string{kCovered} + "/" + (std::strrchr(target, '/') + 1);
  return put(source, text) && mount(source.c_str(), target, nullptr, MS_BIND, nullptr) == 0;
}

}  // namespace

std::string HostSystems::hosts_file() const {
  std::ostringstream text;
  const bool alone = plan_.hosts == 1 && !plan_.topology;  // it has its loopback
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    text << (alone ? "127.0.0.1" : plan_.host_ipv4(host)) << ' ' << host_name(host) << '\n'
         << (alone ? "::1" : plan_.host_ipv6(host)) << ' ' << host_name(host) << '\n';
  }
  if (std::ifstream system{"/etc/hosts"}; system.peek() != std::ifstream::traits_type::eof()) text << system.rdbuf();
  return text.str();
}

void HostSystems::write_names(std::uint32_t host, const std::string& hosts_file) {
  if (mount("brdma-lab", kCovered, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=1m") != 0) {
    trouble_ = std::string{"cannot mount a file system: "} + std::strerror(errno);
    return;
  }
  if (!bind_text(hosts_file, "/etc/hosts")) trouble_ = std::string{"/etc/hosts: "} + std::strerror(errno);
  (void)bind_text(host_name(host) + "\n", "/etc/hostname");  // many systems have none
  if (umount2(kCovered, MNT_DETACH) != 0) fail("cannot uncover " + std::string{kCovered});
}

void HostSystems::set_up() {
  const io::FileDescriptor own_mount = open_own_namespace("mnt"), own_uts = open_own_namespace("uts");
  const std::string hosts = hosts_file();
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    const std::string name = host_name(host);
    if (unshare(CLONE_NEWNS | CLONE_NEWUTS) != 0) fail("cannot make the mount namespace of " + name);
    if (sethostname(name.data(), name.size()) != 0) fail("cannot name " + name);
    write_names(host, hosts);
    hosts_.push_back({open_own_namespace("mnt"), open_own_namespace("uts")});
    if (setns(own_mount.get(), CLONE_NEWNS) != 0 || setns(own_uts.get(), CLONE_NEWUTS) != 0)
      fail("cannot return from " + name);
  }
}

}  // namespace brdma::lab
