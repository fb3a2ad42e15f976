// work_requests/wr_functions.h - the ibv_wr_* functions of a queue pair made with ibv_create_qp_ex(): they fill its
// WorkBuilder, and ibv_wr_complete() posts its requests.
#pragma once

#include <cstdint>

#include "abi/layout.h"
#include "bitmaprdma/types.h"
#include "verbs/objects.h"

namespace brdma::provider {

// The enum ibv_qp_create_send_ops_flags supported by queue pairs of this type, with the loaded libibverbs.
[[nodiscard]] std::uint64_t wr_operations(QpType type, const abi::Layout& layout);

// Makes `qp`, with these limits, an ibv_qp_ex with these operations. Functions of other operations exist, too:
// ibv_wr_complete() returns EINVAL for them. Call before the program sees the queue pair.
void add_wr_functions(QueuePairObject& qp, const abi::Layout& layout, const QpCapabilities& limits,
                      std::uint64_t operations);

}  // namespace brdma::provider
