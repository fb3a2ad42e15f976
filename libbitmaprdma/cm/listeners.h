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
    Service& service = services_[service_id];
    if (service.listening) return Status{EADDRINUSE};
    service.listening = true;
    service.backlog = backlog;
    service.transport = transport;
    return Status::success();
  }
  // Requests that wait stay, and count in the backlog of a later listener.
  void stop(std::uint64_t service_id) {
    const auto service = services_.find(service_id);
    if (service == services_.end()) return;
    service->second.listening = false;
    erase_unused(service);
  }

  enum class Admission : std::uint8_t { kAdmitted, kNobody, kOtherTransport, kBacklogFull };
  // Of another request. Nothing changes.
  [[nodiscard]] Admission admission(std::uint64_t service_id, std::uint8_t transport = 0) const {
    const auto found = services_.find(service_id);
    if (found == services_.end() || !found->second.listening) return Admission::kNobody;
    const Service& service = found->second;
    if (service.transport != transport) return Admission::kOtherTransport;
    return service.waiting < service.backlog ? Admission::kAdmitted : Admission::kBacklogFull;
  }

  // An admitted request waits, until leave(). `service_id` is set.
  void enter(Connection& request) {
    request.waits = true;
    ++services_.find(request.service_id)->second.waiting;
  }
  void leave(Connection& request) {
    if (!request.waits) return;
    request.waits = false;
    const auto service = services_.find(request.service_id);
    --service->second.waiting;
    erase_unused(service);
  }

 private:
  struct Service {
    bool listening = false;
    std::uint8_t transport = 0;
    std::uint32_t backlog = 0, waiting = 0;
  };
  using Services = std::map<std::uint64_t, Service>;  // by service id; a stopped one while requests wait
  void erase_unused(Services::iterator service) {
    if (!service->second.listening && service->second.waiting == 0) services_.erase(service);
  }

  Services services_;
};

}  // namespace brdma::cm
