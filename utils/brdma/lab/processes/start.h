// lab/processes/start.h - starts a lab: namespaces, and in them its keeper (lab/processes/keeper.h).
//
// With the capabilities for it (rights/rights.h): network, PID and mount namespaces. Without, as a user or as root of a
// container: the same inside a user namespace in which this user is root.
// Everything in a lab lives in the keeper's PID namespace. So the lab ends, with every process, daemon and interface in
// it, when the keeper ends for any reason.
#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "io/system/file_descriptor.h"
#include "lab/network/plan.h"

namespace brdma::lab {

// A sentence that names the problem and the remedy.
struct LabError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class Lifetime : std::uint8_t {
  kDetached,    // until `lab down`
  kWithCaller,  // until RunningLab is destroyed, or the calling process ends in any way
};

class RunningLab {
 public:
  RunningLab(pid_t keeper, io::FileDescriptor life) : keeper_(keeper), life_(std::move(life)) {}
  ~RunningLab();  // kWithCaller: ends the lab and waits for it
  RunningLab(RunningLab&&) = default;
  RunningLab(const RunningLab&) = delete;
  RunningLab& operator=(const RunningLab&) = delete;

 private:
  pid_t keeper_;
  io::FileDescriptor life_;
};

// Returns when the hosts are usable. Throws LabError.
[[nodiscard]] RunningLab start_lab(const LabPlan& plan, Lifetime lifetime);

}  // namespace brdma::lab
