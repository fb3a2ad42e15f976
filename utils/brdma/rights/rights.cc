#include "rights/rights.h"

#include <linux/capability.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>

namespace brdma {
namespace {

std::string whole_file(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

// The value of "Key:\tvalue" in /proc/self/status.
std::string status_value(const std::string& key) {
  const std::string status = "\n" + whole_file("/proc/self/status");
  const std::size_t at = status.find("\n" + key + ":\t");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + key.size() + 3;
  return status.substr(begin, status.find('\n', begin) - begin);
}

std::uint64_t bit(int capability) { return std::uint64_t{1} << capability; }

std::string forbidding_switch() {
  struct Switch {
    const char *file, *forbids, *allow;
  };
  static constexpr std::array kSwitches{
      Switch{"/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=15000"},
      Switch{"/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"},
      Switch{"/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1",
             "sysctl kernel.apparmor_restrict_unprivileged_userns=0"},
  };
  for (const Switch& one : kSwitches) {
    std::string value = whole_file(one.file);
    value.erase(std::remove(value.begin(), value.end(), '\n'), value.end());
    if (value == one.forbids) return one.allow;
  }
  return {};
}

}  // namespace

CapabilitySets own_capabilities() {
  constexpr int kHexadecimal = 16;
  return {std::strtoull(status_value("CapEff").c_str(), nullptr, kHexadecimal),
          std::strtoull(status_value("CapAmb").c_str(), nullptr, kHexadecimal)};
}

bool can_make_lab_directly(const CapabilitySets& sets, bool is_root) {
  const std::uint64_t needed = bit(CAP_SYS_ADMIN) | bit(CAP_NET_ADMIN) | bit(CAP_NET_RAW);
  const std::uint64_t kept = is_root ? sets.effective : sets.effective & sets.ambient;
  return (kept & needed) == needed;
}

bool can_map_itself(const CapabilitySets& sets, bool is_root) {
  return !is_root || (sets.effective & bit(CAP_SETFCAP)) != 0;
}

std::string cure_for_no_map(bool could_map_itself) {
  if (could_map_itself) return "a security policy of this system refuses the user's map: see its log (dmesg)";
  return "root without CAP_SETFCAP may not be in a user namespace: run this as another user (container engines: "
         "'--user "
         "65534'), or with that capability ('--cap-add SETFCAP')";
}

std::string cure_for_no_namespaces(const NamespaceFacts& facts) {
  if (!facts.forbidding.empty())
    return "user namespaces are forbidden here: allow them as root by '" + facts.forbidding + "'";
  if (facts.error == ENOSPC) {
    return "the limit of namespaces is reached: end some labs, or raise user.max_user_namespaces, "
           "user.max_net_namespaces and user.max_pid_namespaces";
  }
  if (facts.filtered) {
    return "a system-call filter refuses it, as container engines have one: start the container with '--security-opt "
           "seccomp=unconfined' or with '--cap-add SYS_ADMIN'";
  }
  return "this process has no CAP_SYS_ADMIN, and may not make a user namespace: run it as root with all capabilities, "
         "or "
         "where users may make user namespaces";
}

std::string cure_for_no_namespaces(int error) {
  return cure_for_no_namespaces(
      NamespaceFacts{.error = error, .filtered = status_value("Seccomp") == "2", .forbidding = forbidding_switch()});
}

}  // namespace brdma
