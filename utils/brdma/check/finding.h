// check/finding.h - one thing that is wrong, and the one next step. Each is found by a function over Facts alone, so
// that it is tested without a machine. docs/howto/troubleshooting.md lists the keys.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "check/facts.h"

namespace brdma::check {

enum class Severity : std::uint8_t {
  kError,    // programs will fail, or will not use this library: exit code 1
  kWarning,  // they run, but slower or otherwise than meant
};

struct Finding {
  std::string key;  // stable: "port_taken"
  Severity severity = Severity::kError;
  std::string what, next;  // a sentence each, without the full stop
};

using Found = std::optional<Finding>;
using Find = Found (*)(const Facts&);

// devices.cc
[[nodiscard]] Found find_no_device(const Facts&);
[[nodiscard]] Found find_interface_down(const Facts&);
[[nodiscard]] Found find_other_device_first(const Facts&);
[[nodiscard]] Found find_gid_index_wrong(const Facts&);
[[nodiscard]] Found find_device_variable_wrong(const Facts&);
// host.cc
[[nodiscard]] Found find_one_processor(const Facts&);
[[nodiscard]] Found find_clock_slow(const Facts&);
[[nodiscard]] Found find_netlink_refused(const Facts&);
[[nodiscard]] Found find_proc_missing(const Facts&);
[[nodiscard]] Found find_call_refused(const Facts&);
[[nodiscard]] Found find_open_files_limit(const Facts&);
[[nodiscard]] Found find_offload_missing(const Facts&);
[[nodiscard]] Found find_runtime_directory_full(const Facts&);
[[nodiscard]] Found find_runtime_directory_permission(const Facts&);
// opening.cc
[[nodiscard]] Found find_library_missing(const Facts&);
[[nodiscard]] Found find_verbs_library_missing(const Facts&);
[[nodiscard]] Found find_daemon_missing(const Facts&);
[[nodiscard]] Found find_daemon_silent(const Facts&);
[[nodiscard]] Found find_daemon_version(const Facts&);
[[nodiscard]] Found find_daemon_other_user(const Facts&);
[[nodiscard]] Found find_port_taken(const Facts&);
[[nodiscard]] Found find_port_blocked(const Facts&);
[[nodiscard]] Found find_socket_buffer_small(const Facts&);
// The probe failed, and none of the others is the reason: the library's own sentence.
[[nodiscard]] Found find_open_failed(const Facts&);
// settings.cc
[[nodiscard]] Found find_setting_unknown(const Facts&);
[[nodiscard]] Found find_setting_value(const Facts&);
// program.cc
[[nodiscard]] Found find_program_missing(const Facts&);
[[nodiscard]] Found find_program_static(const Facts&);
[[nodiscard]] Found find_program_privileged(const Facts&);
[[nodiscard]] Found find_program_architecture(const Facts&);
// peer.cc
[[nodiscard]] Found find_peer_failed(const Facts&);
[[nodiscard]] Found find_peer_version(const Facts&);
[[nodiscard]] Found find_port_blocked_to_peer(const Facts&);
[[nodiscard]] Found find_port_blocked_from_peer(const Facts&);
[[nodiscard]] Found find_path_mtu(const Facts&);
[[nodiscard]] Found find_mtu_differs(const Facts&);
[[nodiscard]] Found find_loss(const Facts&);
[[nodiscard]] Found find_reordering(const Facts&);
[[nodiscard]] Found find_bitmap_not_agreed(const Facts&);
[[nodiscard]] Found find_slower_than_tcp(const Facts&);

// All of them, errors first.
[[nodiscard]] std::vector<Finding> find_all(const Facts& facts);
[[nodiscard]] bool has_error(std::span<const Finding> findings);

// The nearest of `words` by edit distance, if at most a third of its letters differ; empty: none.
[[nodiscard]] std::string nearest(const std::string& word, std::span<const std::string> words);

}  // namespace brdma::check
