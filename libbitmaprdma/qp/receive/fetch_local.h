// qp/receive/fetch_local.h - data of packets by reference: from the memory of the peer's process to ours.
#pragma once

#include <optional>
#include <span>

#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/local_reference.h"

namespace brdma::qp {

// nullopt: no valid reference, or none from the peer of this queue pair, or no agreement.
[[nodiscard]] std::optional<wire::LocalReference> admitted(const Identity& identity, ConstBytes payload);
// Precondition: admitted(), and `to` has as many bytes. Counts the fetched bytes.
[[nodiscard]] FetchResult fetch(const Environment& environment, const Identity& identity,
                                const wire::LocalReference& from, std::span<const Slice> to);
// After FetchResult::kFault, which does not identify the faulting side: if our memory is mapped, it was the peer's.
[[nodiscard]] bool all_writable(std::span<const Slice> slices);

}  // namespace brdma::qp
