// lab/processes/switch_process.h - brdma-switch as the keeper's child: starts it, waits for it, keeps its last output.
#pragma once

#include <sys/types.h>

#include <string>

#include "io/system/file_descriptor.h"
#include "lab/network/plan.h"

namespace brdma::lab {

class SwitchProcess {
 public:
  // In the calling thread's network namespace, with a port for each host's link there. `control_fd`: its control
  // socket, listening. Returns when it forwards. Throws std::runtime_error with its output.
  void start(const std::string& program, const LabPlan& plan, int control_fd);

  [[nodiscard]] bool running() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool takes_batches() const { return takes_batches_; }  // of datagrams, as one frame
  [[nodiscard]] const std::string& error() const { return error_; }    // the reason why it ended

  // Readable when it has written output; -1: no output.
  [[nodiscard]] int output_fd() const { return output_.valid() ? output_.get() : -1; }
  void read_words();
  void handle_exit(int wait_status);  // of pid()

 private:
  [[nodiscard]] bool wait_until_ready(int ready_fd);

  pid_t pid_ = -1;
  bool takes_batches_ = false;
  io::FileDescriptor output_;  // standard error
  std::string words_, error_;
};

}  // namespace brdma::lab
