// scenario/protocols.h - the protocols that hosts run, by name, and their settings.
//   bitmap       this library's default: the receiver reports lost packets (fast feedback messages)
//   bitmap-edn   and applies explicit drop notifications of switches
//   selective    the sender alone judges, by acknowledgements; with irn-low and irn-high by IRN's rules
//   selective-edn
//   wan, wan_ffm judged by acknowledgement delays; the second with fast feedback messages, too
//   standard     RoCE packets; the receiver holds early ones
//   gobackn      RoCE packets; the receiver drops early ones
// and the models of run/models.h, which have no settings.
#pragma once

#include <string_view>
#include <vector>

#include "scenario/scenario.h"
#include "scenario/table_reader.h"

namespace brdma::simulator {

[[nodiscard]] std::vector<std::string_view> protocol_names();
// Reads a table [protocol] or [[group]] over `protocol`. `more`: keys of the table that are not the protocol's.
void read_protocol(const TableReader& reader, const toml::table& table, const std::string& what, ProtocolPlan& protocol,
                   const std::vector<TableReader::Key>& more = {});

}  // namespace brdma::simulator
