// rdma_cm/execute.h - executes librdmacm's commands: from their layouts to RDMA-CM (cm/rdma_cm.h) and back. Independent
// of the owner of RDMA-CM and of the write's origin.
//
// A command comes from a program that may be wrong or malicious: each is refused with the kernel's errno value, and a
// refused one has changed nothing. EINVAL: no command, one that is too short, an invalid field, an identifier of
// another channel; ENOSYS: an unsupported command; ENOENT: no such identifier; ENOSPC: no room for the answer; EFAULT:
// unmapped memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "base/units.h"
#include "cm/rdma_cm.h"

namespace brdma::provider {

// The object of commands.
struct CmDesk {
  // Exclusive access to RDMA-CM; outgoing messages leave at destruction.
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
