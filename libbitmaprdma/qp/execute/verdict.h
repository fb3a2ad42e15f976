// qp/execute/verdict.h - private: result of a request's in-order execution, and of the checks before it.
#pragma once

#include <cstdint>

namespace brdma::qp {

enum class Verdict : std::uint8_t {
  kDone,
  kNotReady,        // no receive posted, or no room for another response: RNR NAK, the base stays
  kInvalidRequest,  // NAK 0x61, queue pair to error
  kAccessError,     // NAK 0x62; also of memory that is no longer mapped
  kOperationError,  // NAK 0x63: our own receive buffer is at fault, or memory to be fetched
  kNotFetched,      // its data is not available (any more): as if it had not come
};

}  // namespace brdma::qp
