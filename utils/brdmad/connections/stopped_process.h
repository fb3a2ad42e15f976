// brdmad/connections/stopped_process.h - is a process stopped? Reads /proc and the cgroup file system.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace brdma::daemon {

// By a signal (SIGSTOP, Ctrl-Z) or a debugger: each of its threads is in state T or t, except ended ones. False for one
// that is gone or cannot be seen, and for 0.
[[nodiscard]] bool is_stopped(std::uint32_t pid);

// The freezers of the system as this process sees them: cgroup v2, and v1's controller of that name.
class Freezers {
 public:
  Freezers();  // from /proc/self/mountinfo
  explicit Freezers(std::string_view mountinfo);
  // Its cgroup, or one above it, is frozen: `docker pause`, a suspended job. False where its cgroup cannot be seen.
  [[nodiscard]] bool has_frozen(std::uint32_t pid) const;
  // The file with the frozen state of a cgroup, by a line of /proc/PID/cgroup; empty: none, or not visible from here.
  [[nodiscard]] std::string state_file(std::string_view cgroup_line) const;

 private:
  struct Mount {
    std::string root, point;
    bool unified = false;
  };
  std::vector<Mount> mounts_;
};

}  // namespace brdma::daemon
