// probe/own_state.h - what this process has of an open device: its socket, as the kernel has it, and what its library
// replies to brdmad's queries.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace brdma::probe {

using Json = nlohmann::ordered_json;

struct OwnSocket {
  std::uint64_t receive_buffer = 0;  // bytes; 0: no socket of port 4791
  bool merges = false;               // UDP_GRO
};
[[nodiscard]] OwnSocket own_socket();

// The row of a queue pair in `brdma resource show qp`; empty: brdmad has no answer.
[[nodiscard]] Json queue_pair_row(const std::string& device, std::uint32_t number);
// `datapath` of this process's device: receive, reason, transmit, transmit_reason.
[[nodiscard]] Json datapath_of(const std::string& device);
// A member that is text; else empty.
[[nodiscard]] std::string text_of(const Json& object, const char* key);

}  // namespace brdma::probe
