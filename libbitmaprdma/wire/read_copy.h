// wire/read_copy.h - copies of READ requests (docs/reference/wire.md). A READ request is part of no operation, so
// BXTH's status flag marks it as a copy: it was sent before, and no loss is known.
#pragma once

#include "wire/packet.h"

namespace brdma::wire {

inline void mark_copy(Packet& request) { request.bxth.operation_more = true; }
[[nodiscard]] inline bool is_copy(const Packet& packet) {
  return packet.op == RcOp::kReadRequest && packet.bitmap && packet.bxth.operation_more;
}

}  // namespace brdma::wire
