// qp/paths/spray_responses.h - private: responses over several paths (design BR-29). The path of a batch, and what
// READ re-requests show of the paths (response_paths.h); a path that falls silent or comes back is reported.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/psn.h"
#include "base/units.h"
#include "qp/paths/response_paths.h"
#include "qp/respond/responder_resources.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "recovery/path_spray.h"

namespace brdma::qp {

// A view of the responder's parts, made where it is needed.
class SprayedResponses {
 public:
  struct Parts {
    Environment& env;
    const Identity& identity;
    std::unique_ptr<ResponsePaths>& paths;  // null: there is one, or nothing has left on several
  };
  explicit SprayedResponses(const Parts& parts) : parts_(parts) {}

  // Several paths: that of the next batch, which begins with `first`. `sending`: facts known of them from requests.
  std::uint8_t next_path(const Response& first, std::span<const recovery::PathFacts> sending, Instant now) const;
  // The responses [first, first + count) have left, and are requested again.
  void on_rerequest(Psn first, std::uint32_t count, Instant now) const;

 private:
  Parts parts_;
};

}  // namespace brdma::qp
