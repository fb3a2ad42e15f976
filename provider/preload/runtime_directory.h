// preload/runtime_directory.h - a directory of this user's own, for files that live as long as the machine runs.
// Candidates: $XDG_RUNTIME_DIR/brdma, /tmp/brdma-UID, /dev/shm/brdma-UID; where another user sits on a name, that name
// with an end that is drawn at random, and found again. Each must be a real directory of ours that nobody else can
// write to; made with mode 0700.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace brdma::preload {

// In the order in which they are tried: for each place the names for it, of which the first that is not somebody else's
// counts.
[[nodiscard]] std::vector<std::vector<std::string>> runtime_candidates();

// Makes the directory if it is missing. 0, or the errno value: EPERM when it belongs to somebody else, can be written
// by others, or is not a directory.
[[nodiscard]] int claim_directory(const std::string& path);

// `path` ends in XXXXXX, as for mkdtemp(3): becomes one of ours that begins like it, a new one if there is none. Nobody
// can sit on all names. 0 or an errno value.
[[nodiscard]] int claim_any_directory(std::string& path);

// Calls `use` with each candidate that can be claimed until it answers 0 (done) instead of an errno value. On failure:
// one sentence with what stood in the way of each, and what to do.
[[nodiscard]] std::optional<std::string> with_runtime_directory(const std::function<int(const std::string&)>& use);

}  // namespace brdma::preload
