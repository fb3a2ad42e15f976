// Findings about the library, brdmad, and what a program gets that opens a device.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "check/finding.h"

namespace brdma::check {
namespace {

constexpr std::uint64_t kBufferSmall = 1u << 20;  // as the kernel counts: holds 315 packets of small size
constexpr std::string_view kLibraryName = "libbitmaprdma: ";

// The first message of the probe that contains `text`; empty: none.
std::string message_with(const Facts& facts, std::string_view text) {
  for (const std::string& message : facts.probe.messages) {
    const std::size_t at = message.find(text);
    if (at != std::string::npos) return message;
  }
  return {};
}

std::string without_name(std::string message) {
  if (message.starts_with(kLibraryName)) message.erase(0, kLibraryName.size());
  return message;
}

const Opened* first_failed(const Facts& facts) {
  const auto found = std::ranges::find_if(facts.probe.opened, [](const Opened& one) { return !one.transferred; });
  return found == facts.probe.opened.end() ? nullptr : &*found;
}

bool expects_devices(const Facts& facts) {
  return std::ranges::any_of(facts.devices, [](const Device& device) { return device.active; });
}

}  // namespace

Found find_library_missing(const Facts& facts) {
  if (!facts.library.path.empty()) return std::nullopt;
  return Finding{"library_missing", Severity::kError, facts.library.error.substr(0, facts.library.error.find(';')),
                 "install the whole package, or build it: ninja -C build bitmaprdma"};
}

Found find_verbs_library_missing(const Facts& facts) {
  const std::string message = message_with(facts, "libibverbs.so");
  if (message.empty() || facts.probe.ran) return std::nullopt;
  return Finding{"verbs_library_missing", Severity::kError, "programs cannot load libibverbs: " + message,
                 "install rdma-core's library: apt-get install libibverbs1"};
}

Found find_daemon_missing(const Facts& facts) {
  if (facts.daemon.answers || facts.daemon.program_error.empty()) return std::nullopt;
  return Finding{"daemon_missing", Severity::kError, facts.daemon.program_error,
                 "set BRDMA_DAEMON or daemon.path to the program brdmad, or unset it"};
}

Found find_daemon_silent(const Facts& facts) {
  const Daemon& daemon = facts.daemon;
  if (daemon.answers || daemon.error == 0 || daemon.error == ENOENT) return std::nullopt;
  return Finding{"daemon_silent", Severity::kError,
                 "something listens at the socket @brdmad and does not answer as brdmad does: " + daemon.message,
                 "find it by 'ss -xlp | grep brdmad'; continue it (kill -CONT) if it is stopped, else end it"};
}

Found find_daemon_version(const Facts& facts) {
  const Daemon& daemon = facts.daemon;
  if (!daemon.answers || daemon.lease_protocol == daemon.own_lease_protocol) return std::nullopt;
  return Finding{"daemon_version", Severity::kError,
                 "the running brdmad (" + daemon.version + ") speaks lease protocol " +
                     std::to_string(daemon.lease_protocol) + ", this library (" + facts.library.version + ") " +
                     std::to_string(daemon.own_lease_protocol),
                 "end it once its programs are done: brdmad --stop"};
}

Found find_daemon_other_user(const Facts& facts) {
  const std::string message = message_with(facts, "in this network namespace belongs to");
  if (message.empty()) return std::nullopt;
  return Finding{"daemon_other_user", Severity::kError, without_name(message),
                 "run as that user, or end it (brdmad --stop as root) and run the service bitmaprdma-brdmad"};
}

Found find_port_taken(const Facts& facts) {
  const std::string message = message_with(facts, "4791 is taken");
  if (message.empty()) return std::nullopt;
  return Finding{"port_taken", Severity::kError, without_name(message),
                 "end that program, or use another network namespace ('brdma lab')"};
}

Found find_port_blocked(const Facts& facts) {
  const auto blocked = std::ranges::find_if(facts.probe.opened, [](const Opened& one) {
    return one.queue_pair && !one.transferred && one.error == ETIMEDOUT;
  });
  if (blocked == facts.probe.opened.end()) return std::nullopt;
  return Finding{"port_blocked", Severity::kError,
                 "packets from " + blocked->device + " to itself do not arrive: UDP port 4791 is filtered on this host",
                 "allow it: nft add rule inet filter input udp dport 4791 accept (or iptables, a cloud's rules)"};
}

Found find_socket_buffer_small(const Facts& facts) {
  for (const Opened& one : facts.probe.opened) {
    if (one.receive_buffer == 0 || one.receive_buffer >= kBufferSmall) continue;
    return Finding{"socket_buffer_small", Severity::kWarning,
                   "the receive buffer of " + one.device + " is " + std::to_string(one.receive_buffer) +
                       " bytes: peers get little credit, and UC and UD lose packets in bursts",
                   "sysctl -w net.core.rmem_max=8388608, then restart brdmad; or run it as root or with CAP_NET_ADMIN"};
  }
  return std::nullopt;
}

Found find_open_failed(const Facts& facts) {
  const Opened* const failed = first_failed(facts);
  const bool lost = expects_devices(facts) && (!facts.probe.ran || facts.probe.opened.empty());
  if (failed == nullptr && !lost) return std::nullopt;
  std::string what = "a program cannot use the devices";
  if (failed != nullptr) what = failed->step + " of " + failed->device + ": " + std::strerror(failed->error);
  if (lost && !facts.probe.in_time) what += ": opening them took longer than 30 s";
  if (lost && !facts.library.probe_error.empty()) what += ": " + facts.library.probe_error;
  if (!facts.probe.messages.empty()) what += ": " + without_name(facts.probe.messages.front());
  return Finding{"open_failed", Severity::kError, what,
                 "see docs/howto/troubleshooting.md for the message; 'brdma sysdump' collects what a report needs"};
}

}  // namespace brdma::check
