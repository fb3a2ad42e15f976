// device_files/runtime_directory.h - a directory of this user's own, for files that live as long as the machine runs.
// Candidates: $XDG_RUNTIME_DIR/brdma, /tmp/brdma-UID, /dev/shm/brdma-UID. If another user occupies a name, a random
// suffix is appended, which is found again later. Each must be a real directory of ours that nobody else can write to;
// made with mode 0700.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace brdma::preload {

// In the order of trying: the names for each place; the first that is not another user's counts.
[[nodiscard]] std::vector<std::vector<std::string>> runtime_candidates();

// Makes the directory if it is missing. 0, or the errno value: EPERM when it belongs to somebody else, is writable by
// others, or is not a directory.
[[nodiscard]] int claim_directory(const std::string& path);

// `path` ends in XXXXXX, as for mkdtemp(3): becomes one of ours with the same beginning, a new one if there is none.
// Nobody can occupy all names. 0 or an errno value.
[[nodiscard]] int claim_any_directory(std::string& path);

// Calls `use` with each claimable candidate until it returns 0 (done) instead of an errno value. On failure: one
// sentence with the obstacle of each, and the remedy.
[[nodiscard]] std::optional<std::string> with_runtime_directory(const std::function<int(const std::string&)>& use);

}  // namespace brdma::preload
