// brdmad/connections/connection_table.h - the connections of RDMA-CM in memory that outlives the worker and the daemon
// (vault.h). When a process dies while there is no worker, the next worker still knows which peers to disconnect. Only
// the worker writes. `id` is written last and cleared first: a crash leaves no half entry.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "cm/connection.h"

namespace brdma::daemon {

inline constexpr std::size_t kConnectionsMax = 1 << 18;  // of all processes; the peers of further ones get no DREQ

struct ConnectionRecord {
  std::uint32_t id = 0;  // ours; 0: no entry
  std::uint32_t pid = 0;
  std::uint32_t remote_id = 0, remote_qpn = 0;  // 0: our REQ is not answered yet
  std::uint64_t transaction = 0;
  cm::Endpoints endpoints;
};

struct ConnectionTable {
  std::uint32_t rows_used = 0;  // entries lie below this row
  std::array<ConnectionRecord, kConnectionsMax> rows{};
};

}  // namespace brdma::daemon
