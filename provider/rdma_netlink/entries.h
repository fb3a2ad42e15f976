// rdma_netlink/entries.h - an object's attributes, from a row of brdmad's answers (io/management/management.h). Any
// program may have written the row.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>

#include "rdma_netlink/source.h"

namespace brdma::provider::nldev {

// `owner`: the program, as in brdmad's "leases". `place`: the row's among those of its kind, which is the number of
// what has none. `keys`: with keys, where brdmad gave them. Throws nlohmann::json::exception for a row of another form.
[[nodiscard]] Entry entry_of(Resource kind, const nlohmann::ordered_json& row, const nlohmann::ordered_json& owner,
                             std::uint32_t place, bool keys);

}  // namespace brdma::provider::nldev
