#include "models/protocols.h"

#include <algorithm>

#include "models/rdma/receiver.h"
#include "models/rdma/sender.h"
#include "models/tcp/receiver.h"
#include "models/tcp/sender.h"

namespace brdma::models {

namespace {

tcp::Settings tcp_base(const Path& path, std::uint32_t payload) {
  tcp::Settings settings;
  settings.sizes.payload = payload;
  settings.known_rtt = path.base_rtt;  // of the handshake
  return settings;
}

std::optional<Protocol> find_tcp(std::string_view name, const Path& path, std::uint32_t payload) {
  tcp::Settings settings = tcp_base(path, payload);
  if (name == "tcp") return settings;
  if (name == "tcp-newreno") {
    settings.sack = false;
    return settings;
  }
  if (name == "tcp-cubic") {
    settings.congestion = tcp::Congestion::kCubic;
    return settings;
  }
  settings.rack_tlp = name == "tcp-tlp";
  settings.edn = name == "tcp-edn";
  if (settings.rack_tlp || settings.edn) return settings;
  return std::nullopt;
}

// Go-back-N, as adapters have it.
std::optional<Protocol> find_go_back_n(std::string_view name, const Path& path, std::uint32_t payload) {
  rdma::Settings settings;
  settings.sizes.payload = payload;
  if (name == "rdma") return settings;
  if (name == "rdma-notimer") {
    settings.timeouts.high = Duration{};
    return settings;
  }
  if (name == "gobackn-edn") {
    settings.edn = true;
    return settings;
  }
  settings.control = rdma::ControlRule::kDcqcn;
  settings.dcqcn = name == "dcqcn" ? rdma::dcqcn_nic(path.rate) : rdma::dcqcn_paper(path.rate);
  if (name == "dcqcn-paper") settings.receiver.cnp_interval = 50_us;
  if (name == "dcqcn" || name == "dcqcn-paper") return settings;
  return std::nullopt;
}

rdma::Settings irn_base(const Path& path, std::uint32_t payload) {
  rdma::Settings settings;
  settings.sizes.payload = payload;
  settings.recovery = rdma::RecoveryRule::kIrn;
  settings.cap = std::max<std::uint64_t>(path.bdp(), payload);
  settings.timeouts = {320_us, 100_us, 3};
  return settings;
}

// The published base of 25 us belongs to another network: here it is the path's RTT, and the range keeps its
// proportion.
rdma::SwiftSettings swift_of(const Path& path, std::uint32_t payload) {
  rdma::SwiftSettings settings;
  settings.flow_range = path.base_rtt * (settings.flow_range.ns() / settings.base.ns());
  settings.base = path.base_rtt;
  settings.window_start = static_cast<double>(std::max<std::uint64_t>(path.bdp() / payload, 1));
  return settings;
}

std::optional<Protocol> find_irn(std::string_view name, const Path& path, std::uint32_t payload) {
  rdma::Settings settings = irn_base(path, payload);
  if (name == "irn") return settings;
  if (name == "irn-ns3") {
    settings.recovery = rdma::RecoveryRule::kIrnNs3;
    settings.receiver.nacks_while_holes = true;
    return settings;
  }
  if (name == "irn-dcqcn") {
    settings.control = rdma::ControlRule::kDcqcn;
    settings.dcqcn = rdma::dcqcn_nic(path.rate);
    return settings;
  }
  if (name == "swift") {
    settings.control = rdma::ControlRule::kSwift;
    settings.swift = swift_of(path, payload);
    settings.cap = 0;
    return settings;
  }
  settings.edn = true;
  if (name == "irn-edn") return settings;
  if (name != "rdma-edn") return std::nullopt;
  settings.cap = 0;
  settings.timeouts = rdma::Timeouts{};
  return settings;
}

}  // namespace

std::optional<Protocol> find_protocol(std::string_view name, const Path& path, std::uint32_t payload) {
  if (auto found = find_tcp(name, path, payload)) return found;
  if (auto found = find_go_back_n(name, path, payload)) return found;
  return find_irn(name, path, payload);
}

std::unique_ptr<Sender> make_sender(const Protocol& protocol, FlowId flow) {
  if (const auto* tcp = std::get_if<tcp::Settings>(&protocol)) return std::make_unique<tcp::TcpSender>(flow, *tcp);
  return std::make_unique<rdma::RdmaSender>(flow, std::get<rdma::Settings>(protocol));
}

std::unique_ptr<Receiver> make_receiver(const Protocol& protocol, FlowId flow) {
  if (const auto* tcp = std::get_if<tcp::Settings>(&protocol)) return std::make_unique<tcp::TcpReceiver>(flow, *tcp);
  const auto& rdma = std::get<rdma::Settings>(protocol);
  if (rdma.recovery == rdma::RecoveryRule::kGoBackN) return std::make_unique<rdma::GoBackNReceiver>(flow, rdma);
  return std::make_unique<rdma::SelectiveReceiver>(flow, rdma);
}

}  // namespace brdma::models
