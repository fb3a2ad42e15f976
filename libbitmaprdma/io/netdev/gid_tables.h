// io/netdev/gid_tables.h - the GID tables of this network namespace's interfaces, and where they are kept.
//
// In the kernel a table lives as long as its device. Here each process has tables; those of brdmad are the common ones,
// for as long as it runs: who lists the devices asks it (never starting it), and tells it the tables that it has, for a
// brdmad that has just begun. Where no brdmad runs the tables begin with what there is, in the order of
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

// The link-local address that is made of the MAC; none without one.
[[nodiscard]] std::optional<IpAddress> default_gid(const Interface& interface);

// What the interfaces are now. A table begins with an interface's first address, and ends with the interface.
void update(GidTables& tables, std::span<const Interface> interfaces);

[[nodiscard]] nlohmann::ordered_json to_json(const GidTables& tables);
// What is not to be understood is left out.
[[nodiscard]] GidTables gid_tables_from(const nlohmann::ordered_json& list);

// brdmad's tables in the place of ours, of the interfaces that it knows. Nothing changes where none answers.
void adopt_common(GidTables& tables);
// This process is brdmad, or has no part in what others see: it does not ask.
void keep_gid_tables_apart();

}  // namespace brdma::io
