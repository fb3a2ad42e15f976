// qp/receive/fetch_local.h - data of described packets: from the memory of the peer's process to ours.
#pragma once

#include <optional>
#include <span>

#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "wire/local_reference.h"

namespace brdma::qp {

// nullopt: no description, or none that the peer of this queue pair has made: nothing was agreed on.
[[nodiscard]] std::optional<wire::LocalReference> admitted(const Identity& identity, ConstBytes payload);
// Precondition: admitted(), and `to` has as many bytes. Counts what was fetched.
[[nodiscard]] FetchResult fetch(const Environment& environment, const Identity& identity,
                                const wire::LocalReference& from, std::span<const Slice> to);
// After FetchResult::kFault, which does not say whose memory it was: ours is there, so it was the peer's.
[[nodiscard]] bool all_writable(std::span<const Slice> slices);

}  // namespace brdma::qp
