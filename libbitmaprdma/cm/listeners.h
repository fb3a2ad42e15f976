// cm/listeners.h - the services that are listened on, and each one's backlog: requests that wait for the application.
// Shared by the connection manager and the service lookup. Not thread-safe.
#pragma once

#include <cerrno>
#include <cstdint>
#include <map>

#include "base/result.h"
#include "cm/connection.h"

namespace brdma::cm {

class Listeners {
 public:
  // `transport`: as in a REQ; the lookup has no transports. EADDRINUSE: there is a listener already.
  Status listen(std::uint64_t service_id, std::uint32_t backlog, std::uint8_t transport = 0) {
    const Listener listener{.backlog = backlog, .transport = transport};
    if (!listeners_.try_emplace(service_id, listener).second) return Status{EADDRINUSE};
    return Status::success();
  }
  void stop(std::uint64_t service_id) { listeners_.erase(service_id); }

  enum class Admission : std::uint8_t { kAdmitted, kNobody, kOtherTransport, kBacklogFull };
  // Of another request. Nothing changes.
  [[nodiscard]] Admission admission(std::uint64_t service_id, std::uint8_t transport = 0) const {
    const auto listener = listeners_.find(service_id);
    if (listener == listeners_.end()) return Admission::kNobody;
    if (listener->second.transport != transport) return Admission::kOtherTransport;
    return listener->second.waiting < listener->second.backlog ? Admission::kAdmitted : Admission::kBacklogFull;
  }

  // An admitted request waits, until leave(). `service_id` is set.
  void enter(Connection& request) {
    request.waits = true;
    ++listeners_.find(request.service_id)->second.waiting;
  }
  void leave(Connection& request) {
    if (!request.waits) return;
    request.waits = false;
    const auto listener = listeners_.find(request.service_id);
    if (listener != listeners_.end() && listener->second.waiting > 0) --listener->second.waiting;
  }

 private:
  struct Listener {
    std::uint32_t backlog = 0, waiting = 0;
    std::uint8_t transport = 0;
  };
  std::map<std::uint64_t, Listener> listeners_;  // by service id
};

}  // namespace brdma::cm
