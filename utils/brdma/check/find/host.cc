// Findings about the machine, its limits and its sandbox.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "check/finding.h"

namespace brdma::check {
namespace {

constexpr std::uint64_t kDaemonFiles = 320;  // descriptors that brdmad needs to start

// Clocks that user space reads without a system call.
constexpr std::array<std::string_view, 6> kFastClocks{
    "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "timebase", "riscv_clocksource"};

bool opens_all(const Facts& facts) {
  return facts.probe.ran && std::ranges::all_of(facts.probe.opened, [](const Opened& one) { return one.transferred; });
}

// Places whose error is one of `errors`, and whether no place is left.
struct Places {
  std::string text;
  bool none_left = false;
};

Places places_with(const Facts& facts, std::span<const int> errors) {
  Places found;
  for (const RuntimePlace& place : facts.host.places) {
    if (std::ranges::find(errors, place.error) == errors.end()) continue;
    found.text += (found.text.empty() ? "" : "; ") + place.path + ": " + std::strerror(place.error);
  }
  found.none_left = std::ranges::none_of(facts.host.places, [](const RuntimePlace& place) { return place.error == 0; });
  return found;
}

}  // namespace

Found find_one_processor(const Facts& facts) {
  if (facts.host.processors != 1) return std::nullopt;
  return Finding{"one_processor", Severity::kWarning,
                 "this process may use one processor: a program and its progress thread take turns, in milliseconds",
                 "allow two: taskset, the cpuset of the cgroup, or --cpus of the container"};
}

Found find_clock_slow(const Facts& facts) {
  const std::string& clock = facts.host.clock_source;
  if (clock.empty() || std::ranges::find(kFastClocks, clock) != kFastClocks.end()) return std::nullopt;
  return Finding{"clock_slow", Severity::kWarning,
                 "the kernel's clock source is " + clock + ": each reading of the time is a system call",
                 "see 'dmesg | grep -i tsc' for the reason why tsc was given up; then "
                 "/sys/devices/system/clocksource/clocksource0/current_clocksource"};
}

Found find_netlink_refused(const Facts& facts) {
  if (facts.host.netlink_error == 0) return std::nullopt;
  return Finding{"netlink_refused", Severity::kWarning,
                 std::string{"netlink sockets are refused ("} + std::strerror(facts.host.netlink_error) +
                     "): changes of interfaces are seen twice a second, and AF_XDP does not send",
                 "allow AF_NETLINK in the sandbox (systemd: RestrictAddressFamilies=; a seccomp filter)"};
}

Found find_proc_missing(const Facts& facts) {
  if (facts.host.has_proc) return std::nullopt;
  return Finding{"proc_missing", Severity::kWarning,
                 "/proc is not mounted: holders of the port, stopped processes and IPv6 addresses are not seen",
                 "mount it: mount -t proc proc /proc"};
}

Found find_call_refused(const Facts& facts) {
  for (const SystemCall& call : facts.host.calls) {
    if (call.error == 0 && !call.ends) continue;
    const bool fatal = call.needed && !opens_all(facts);
    return Finding{"call_refused", fatal ? Severity::kError : Severity::kWarning,
                   "the system call " + call.name + (call.ends ? " ends the process" : " is refused") +
                       " by a seccomp filter or another policy: " + call.purpose,
                   "allow " + call.name + " in the sandbox's filter (Docker: --security-opt seccomp=PROFILE)"};
  }
  return std::nullopt;
}

Found find_open_files_limit(const Facts& facts) {
  const Host& host = facts.host;
  if (host.open_files_hard >= kDaemonFiles && host.open_files_soft >= 64) return std::nullopt;
  const bool hard = host.open_files_hard < kDaemonFiles;
  const bool daemon_runs = facts.daemon.answers;
  return Finding{
      "open_files_limit", hard && !daemon_runs ? Severity::kError : Severity::kWarning,
      hard ? "the hard limit of open files is " + std::to_string(host.open_files_hard) + ": brdmad needs " +
                 std::to_string(kDaemonFiles)
           : "the limit of open files is " + std::to_string(host.open_files_soft) +
                 ": a program with a device, a channel and a connection has hardly room",
      hard ? "raise 'ulimit -Hn' (LimitNOFILE= of a service, --ulimit nofile= of a container)" : "raise 'ulimit -n'"};
}

Found find_offload_missing(const Facts& facts) {
  if (facts.host.segmentation_offload) return std::nullopt;
  return Finding{"offload_missing", Severity::kWarning,
                 "the kernel does not split UDP batches (UDP_SEGMENT): each packet costs a system call's share",
                 "use Linux 4.18 or newer; in a sandbox allow setsockopt(UDP_SEGMENT)"};
}

Found find_runtime_directory_full(const Facts& facts) {
  constexpr std::array<int, 2> kFull{ENOSPC, EDQUOT};
  const Places places = places_with(facts, kFull);
  if (places.text.empty()) return std::nullopt;
  return Finding{"runtime_directory_full", places.none_left ? Severity::kError : Severity::kWarning,
                 "a place of the device files is full: " + places.text,
                 "make room there, or set XDG_RUNTIME_DIR to a directory of your own with room in it"};
}

Found find_runtime_directory_permission(const Facts& facts) {
  constexpr std::array<int, 5> kRefused{EPERM, EACCES, EROFS, ENOENT, ENOTDIR};
  const Places places = places_with(facts, kRefused);
  if (places.text.empty()) return std::nullopt;
  return Finding{
      "runtime_directory_permission", places.none_left ? Severity::kError : Severity::kWarning,
      "a place of the device files cannot be used, as it is not this user's alone or not writable: " + places.text,
      "make it a directory of this user with mode 0700, or set XDG_RUNTIME_DIR to another"};
}

}  // namespace brdma::check
