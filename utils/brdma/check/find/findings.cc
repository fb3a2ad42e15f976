// The list of findings.

#include <algorithm>
#include <array>

#include "check/finding.h"

namespace brdma::check {
namespace {

// In the order of showing, within errors and within warnings: causes before effects.
constexpr std::array kAll{
    find_library_missing,
    find_verbs_library_missing,
    find_setting_unknown,
    find_setting_value,
    find_proc_missing,
    find_no_device,
    find_interface_down,
    find_open_files_limit,
    find_runtime_directory_full,
    find_runtime_directory_permission,
    find_daemon_missing,
    find_daemon_silent,
    find_daemon_version,
    find_daemon_other_user,
    find_port_taken,
    find_call_refused,
    find_port_blocked,
    find_other_device_first,
    find_gid_index_wrong,
    find_device_variable_wrong,
    find_program_missing,
    find_program_static,
    find_program_privileged,
    find_program_architecture,
    find_peer_failed,
    find_port_blocked_to_peer,
    find_port_blocked_from_peer,
    find_path_mtu,
    find_peer_version,
    find_mtu_differs,
    find_loss,
    find_reordering,
    find_bitmap_not_agreed,
    find_one_processor,
    find_netlink_refused,
    find_socket_buffer_small,
    find_offload_missing,
    find_clock_slow,
    find_slower_than_tcp,
};

// Reasons for which a program cannot use a device; without one of them the library's own sentence is the finding.
constexpr std::array kReasons{
    find_library_missing, find_verbs_library_missing,  find_no_device,         find_open_files_limit,
    find_call_refused,    find_runtime_directory_full, find_daemon_missing,    find_runtime_directory_permission,
    find_daemon_silent,   find_daemon_version,         find_daemon_other_user, find_port_taken,
    find_port_blocked,
};

bool has_reason(const Facts& facts) {
  return std::ranges::any_of(kReasons, [&facts](const Find find) {
    const Found found = find(facts);
    return found && found->severity == Severity::kError;
  });
}

}  // namespace

bool has_error(std::span<const Finding> findings) {
  return std::ranges::any_of(findings, [](const Finding& one) { return one.severity == Severity::kError; });
}

std::vector<Finding> find_all(const Facts& facts) {
  std::vector<Finding> findings;
  for (const Find find : kAll) {
    if (Found found = find(facts)) findings.push_back(std::move(*found));
  }
  if (!has_reason(facts)) {
    if (Found found = find_open_failed(facts)) findings.push_back(std::move(*found));
  }
  std::ranges::stable_sort(findings, {}, &Finding::severity);
  return findings;
}

}  // namespace brdma::check
