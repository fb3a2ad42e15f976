// brdma-switch/requests/control.h - the switch's control socket: JSON, one object a line each way.
//   {"command":"show"}                             -> {"ok":true,"network":{...},"hosts":[...],"total":{...}}
//   {"command":"set","options":{"loss":"5%"}}      -> {"ok":true,"network":{...}}; a mistake changes nothing:
//                                                     {"ok":false,"error":"loss '5': expected ..."}
//   {"command":"stop"}                             -> {"ok":true}, then the switch ends
// Answers only the user who started the switch, and root. Runs on Boost.Asio in the calling thread.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "datapath/data_loop.h"
#include "fabric/network.h"

namespace brdma::lab {

// `listener`: a listening Unix stream socket, taken over. Returns after "stop" or SIGTERM; the loop is stopped by then.
void serve_control(int listener, DataLoop& loop);

// One request's answer; separate for tests. Sets `stop` for the stop command.
[[nodiscard]] std::string answer_control(const std::string& line, DataLoop& loop, bool& stop);

// {"ok":false,"error":...}
[[nodiscard]] nlohmann::ordered_json failure(const std::string& error);
// Takes the "options" of a set request into `config`. Returns their error; then `config` must not be used.
[[nodiscard]] std::optional<std::string> take_options(const nlohmann::json& request, fabric::NetworkConfig& config);

}  // namespace brdma::lab
