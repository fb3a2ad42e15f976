// lab/commands/report.h - the network's impairments and the recovery from them, as tables.
#pragma once

#include <string>
#include <vector>

#include "output.h"

namespace brdma::lab {

// The statistics of the host's brdmad (control/statistics.h), summed over devices; {} if none runs there.
[[nodiscard]] Json host_counters(const std::string& lab, const std::string& host);

// `show`: the switch's answer to "show", or null if there is no switch.
void print_network_table(const Json& show);
struct HostReport {
  std::string host;  // the column's heading
  Json counters;
};
void print_recovery_table(const std::vector<HostReport>& hosts);

}  // namespace brdma::lab
