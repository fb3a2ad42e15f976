// qp/respond/responses.h - private: output of a responder that follows requests, as a queue pair keeps it.
#pragma once

#include <memory>

#include "qp/paths/response_paths.h"
#include "qp/respond/responder_resources.h"
#include "qp/respond/response_log.h"
#include "qp/state/identity.h"

namespace brdma::qp {

struct Responses {
  ResponderResources resources;          // READs, atomics and NAKs that have not left
  std::unique_ptr<ResponsePaths> paths;  // only if responses may take several
  std::unique_ptr<ResponseLog> log;      // with the first response in bitmap mode
  std::unique_ptr<Response> refusal;     // the NAK that ended the connection, once it has left
  bool read_refused = false;             // while it was sent; the next handle_timeout() returns the Outcome

  // A new connection. `outstanding_max`: the queue pair's max_dest_rd_atomic.
  void restart(std::uint32_t outstanding_max) {
    resources.reset(outstanding_max);
    read_refused = false;
    paths.reset();
    log.reset();
    refusal.reset();
  }
};

}  // namespace brdma::qp
