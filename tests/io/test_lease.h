// tests/io/test_lease.h - leases without brdmad: members of one SO_REUSEPORT group with the same steering filter.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "io/daemon/lease.h"
#include "io/shard/open_context.h"

namespace brdma::test {

inline constexpr std::uint32_t kFirstSlot = 2;

// Sockets on port 4791 of the calling thread's network namespace: the i-th one is slot kFirstSlot + i. Their
// statistics live as long as the process. `dual_stack` false: IPv4 only.
std::vector<io::Lease> make_leases(unsigned count, bool dual_stack = true);

// The sum of their counters.
[[nodiscard]] std::uint64_t count_of_all(Counter counter);

// Options of a context on such a lease: with AF_XDP in both directions, made here and not by brdmad, if the tests run
// over it (test_network.h).
[[nodiscard]] io::ContextImpl::Options usual_context_options();

}  // namespace brdma::test
