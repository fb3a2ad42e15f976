// wr_functions.h - the ibv_wr_* functions of a queue pair that was made with ibv_create_qp_ex(): they fill its
// WorkBuilder, and ibv_wr_complete() posts what it holds.
#pragma once

#include <cstdint>

#include "abi/layout.h"
#include "bitmaprdma/types.h"
#include "objects.h"

namespace brdma::provider {

// enum ibv_qp_create_send_ops_flags that queue pairs of this type have, with the loaded libibverbs.
[[nodiscard]] std::uint64_t wr_operations(QpType type, const abi::Layout& layout);

// Makes `qp`, which has these limits, an ibv_qp_ex with these operations. Functions of operations that were not asked
// for are there, too: ibv_wr_complete() answers EINVAL for them. Call before the program sees the queue pair.
void add_wr_functions(QueuePairObject& qp, const abi::Layout& layout, const QpCapabilities& limits,
                      std::uint64_t operations);

}  // namespace brdma::provider
