// rdma_cm/execute.h - what librdmacm's commands do: from their layouts to RDMA-CM (cm/rdma_cm.h) and back. Whose
// RDMA-CM that is, and how a write reached us, is not known here.
//
// A command comes from a program that may be wrong or mean: each is refused with the kernel's errno value, and what is
// refused has changed nothing. EINVAL: no command, one that is too short, a field that can't be, an identifier of
// another channel; ENOSYS: a command that is not served; ENOENT: no such identifier; ENOSPC: no room for the answer;
// EFAULT: memory that is not there.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/units.h"
#include "cm/rdma_cm.h"

namespace brdma::provider {

// What commands act on.
struct CmDesk {
  // RDMA-CM, ours alone until this is destroyed; then what is to be sent leaves.
  struct Session {
    Session(cm::RdmaCm& of, Instant at) : cm(of), now(at) {}
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    virtual ~Session() = default;
    cm::RdmaCm& cm;
    Instant now;
  };
  virtual ~CmDesk() = default;
  [[nodiscard]] virtual std::unique_ptr<Session> begin() = 0;
  virtual void pause() = 0;  // for some 50 us, in which others have their turn
  [[nodiscard]] virtual std::optional<cm::ChannelNumber> find_channel(int fd) = 0;
};

// `program`, `count`: as given to write(2) on the channel's descriptor. 0, or an errno value. GET_EVENT waits by
// reading an eventfd's count from `fd`, with no session begun.
[[nodiscard]] int execute(CmDesk& desk, cm::ChannelNumber channel, int fd, const void* program, std::size_t count);

}  // namespace brdma::provider
