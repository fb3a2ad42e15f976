// io/daemon/daemon_client.h - asks the running brdmad: one JSON object out, one back (docs/explanation/daemon.md lists
// them):
//   {"query":"version"}   {"query":"leases"}   {"query":"statistics"}   {"query":"config"}
//   {"query":"shutdown","force":false}
// Never starts a daemon. Used by the command line and the lab, not by the datapath.
#pragma once

#include <chrono>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "base/result.h"
#include "bitmaprdma/context.h"

namespace brdma::io {

// Errors: ENOENT no brdmad runs in this network namespace; ETIMEDOUT; EPROTO; else what brdmad answered.
[[nodiscard]] Result<nlohmann::ordered_json, ContextError> query_daemon(const nlohmann::json& request);

// The same for any listener at the abstract socket "@<name>" with this protocol: one line of JSON each way. Returns the
// answer unchanged. Errors: ECONNREFUSED no listener; ETIMEDOUT; EPROTO.
[[nodiscard]] Result<nlohmann::ordered_json, ContextError> ask_at(
    std::string_view name, const nlohmann::json& request,
    std::chrono::milliseconds answer_within = std::chrono::seconds{10});

}  // namespace brdma::io
