// plugin/after_fork.h - devices that are open when the program forks. Both processes have the sockets and a copy of the
// engine, and only one of them can continue: the first that makes a queue pair. So a program may open its device,
// become a daemon and then make its queue pairs. A device with queue pairs at the fork stays the parent's: in the child
// it is abandoned.
//   every call of an abandoned device    EIO (ibv_poll_cq: -EIO) at once; destroying and closing succeed
//   its asynchronous events              IBV_EVENT_DEVICE_FATAL, then the end of file
//   its completion channels              an event of each queue, then the end of file
//   its write channels                   readable, then the end of file; EIO from each call
//   RDMA-CM's event channels             are readable; every command is EBADF
#pragma once

#include <infiniband/verbs.h>
#include <sys/types.h>

#include <atomic>

#include "abi/layout.h"
#include "base/result.h"

namespace brdma::provider {

// Owner process of an open device's queue pairs. A word shared by parent and children.
class Ownership {
 public:
  // ENOMEM, as mmap(2) has it.
  [[nodiscard]] Status make();
  Ownership() = default;
  ~Ownership();
  Ownership(const Ownership&) = delete;
  Ownership& operator=(const Ownership&) = delete;

  // True: this process owns it from now on, or already.
  [[nodiscard]] bool take();
  [[nodiscard]] pid_t owner() const { return word_->load(); }  // 0: nobody's yet

 private:
  std::atomic<pid_t>* word_ = nullptr;
};

// Call before a device or a channel is open: installs the handlers for children.
void watch_forks();

// Reports on standard error, once, why a call of an abandoned device fails.
void complain_of_abandoned();

// EIO for all, success for those that give something back.
void fill_abandoned_operations(abi::OpTable& ops);
[[nodiscard]] bool has_abandoned_operations(const ibv_context* context);

// Some device of this process is abandoned: checked first, as it costs least.
inline std::atomic<bool> any_abandoned{false};

}  // namespace brdma::provider
