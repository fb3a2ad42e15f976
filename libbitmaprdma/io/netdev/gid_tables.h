// io/netdev/gid_tables.h - the GID tables of this network namespace's interfaces, and their storage.
//
// In the kernel a table lives as long as its device. Here each process has tables; brdmad's are the common ones, as
// long as it runs. A process that lists the devices asks it (never starting it), and sends its own tables, for a brdmad
// that has just begun. Without a brdmad the tables begin with the present addresses, in the order of
// io/netdev/interfaces.h.
//   question  {"query":"gids","have":[{"ifindex":2,"gids":["fe80::1","::ffff:10.0.0.1","","fd00::1"]}]}
//   answer    {"gids":[the same]}   of all interfaces; "" is a hole, and holes at the end are left out
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>

#include "io/netdev/gid_table.h"
#include "io/netdev/interfaces.h"

namespace brdma::io {

using GidTables = std::map<std::uint32_t, GidTable>;  // by interface index

// The link-local address made from the MAC; none without one.
[[nodiscard]] std::optional<IpAddress> default_gid(const Interface& interface);

// Updates to the present interfaces. A table begins with an interface's first address, and ends with the interface.
void update(GidTables& tables, std::span<const Interface> interfaces);

[[nodiscard]] nlohmann::ordered_json to_json(const GidTables& tables);
// Invalid entries are skipped.
[[nodiscard]] GidTables gid_tables_from(const nlohmann::ordered_json& list);

// Replaces our tables by brdmad's, for the interfaces that it knows. No change without an answer.
void adopt_common(GidTables& tables);
// This process is brdmad, or shares nothing with others: it does not ask.
void keep_gid_tables_apart();

}  // namespace brdma::io
