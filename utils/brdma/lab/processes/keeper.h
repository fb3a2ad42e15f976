// lab/processes/keeper.h - the process that a lab lives by: process 1 of the lab's PID namespace. It makes the hosts'
// network namespaces, joins them, starts the switch, then waits and answers over lab/processes/channel.h, one request a
// connection:
//   {"command":"describe"}            ->
//   {"ok":true,"name":..,"hosts":[{"host":"h1","ipv4":..,"ipv6":..,"interface":..}],
//                                        "interface_mtu":..,"topology":true|false,"switch":true|false,"switch_error":".."}
//   {"command":"enter","host":"h1"}   -> {"ok":true,"user_namespace":true|false} with descriptors:
//                                        [user,] pid, mount and network namespace, in this order
//   {"command":"down"}                -> {"ok":true}, and the lab ends
//   any mistake                       -> {"ok":false,"error":"..."}
// `brdma` starts itself as the keeper: `brdma lab-keeper DESCRIPTION`; other users need not.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "lab/network/plan.h"

namespace brdma::lab {

struct KeeperDescription {
  LabPlan plan;
  bool user_namespace = false;
  std::string switch_program;
  // Open descriptors.
  int control_fd = -1;  // listens: lab/processes/channel.h
  int switch_fd = -1;   // listens: the switch's control socket
  int ready_fd = -1;    // gets {"ok":true} or {"ok":false,"error":..} and is closed
  int life_fd = -1;     // reads end of file when the owner is gone; -1: detached
};
[[nodiscard]] std::string to_text(const KeeperDescription& description);
[[nodiscard]] KeeperDescription keeper_description(const std::string& text);

[[nodiscard]] int run_keeper(const KeeperDescription& description);

}  // namespace brdma::lab
