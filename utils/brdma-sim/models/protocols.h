// models/protocols.h - the protocols by name, as scenarios write them, and the ends of a flow.
//   const auto protocol = find_protocol("irn", path, 4096);   // none: unknown name
//   auto sender = make_sender(*protocol, flow);
//   auto receiver = make_receiver(*protocol, flow);
// payload: bytes of a full packet. Headers: those of Ethernet, IPv4 and RoCEv2 or TCP with timestamps.
// A scenario's own parameters: change the fields of `*protocol` before the flows are made. Names: kProtocolNames.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <variant>

#include "models/model.h"
#include "models/rdma/settings.h"
#include "models/tcp/settings.h"

namespace brdma::models {

using Protocol = std::variant<tcp::Settings, rdma::Settings>;

inline constexpr std::array<std::string_view, 16> kProtocolNames{
    "tcp",           // SACK, NewReno's window, RTO of at least 200 ms
    "tcp-newreno",   // the same without SACK
    "tcp-cubic",     // SACK, CUBIC
    "tcp-tlp",       // and RACK-TLP
    "tcp-edn",       // and EDN
    "rdma",          // go-back-N, timeout of 4.096 us x 2^10
    "rdma-notimer",  // go-back-N without a retransmission timer, as HPCC's simulator
    "rdma-edn",      // the timeout of "rdma", a receiver that keeps packets out of order, EDN
    "gobackn-edn",   // go-back-N that EDN sends back to the dropped packet
    "dcqcn",         // go-back-N with DCQCN, parameters of a NIC
    "dcqcn-paper",   // the paper's
    "irn",           // IRN by its paper's rule, published timeouts
    "irn-ns3",       // IRN as a common ns-3 code does it
    "irn-edn",       // IRN and EDN
    "irn-dcqcn",     // IRN with DCQCN, parameters of a NIC
    "swift",         // Swift's delay control over IRN's recovery
};

[[nodiscard]] std::optional<Protocol> find_protocol(std::string_view name, const Path& path, std::uint32_t payload);
[[nodiscard]] std::unique_ptr<Sender> make_sender(const Protocol& protocol, FlowId flow);
[[nodiscard]] std::unique_ptr<Receiver> make_receiver(const Protocol& protocol, FlowId flow);

}  // namespace brdma::models
