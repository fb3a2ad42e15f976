// lab/processes/client.h - requests of a lab's clients to its keeper and its switch. Throws LabError with a sentence.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "io/system/file_descriptor.h"
#include "lab/network/plan.h"
#include "lab/processes/start.h"

namespace brdma::lab {

// A host's namespaces, to be entered with lab/processes/host_process.h.
struct HostNamespaces {
  io::FileDescriptor user;  // not valid when the lab was made by root
  io::FileDescriptor pid, mount, uts, net;
  std::uint32_t paths = 1;                 // of the network, as the lab was started
  std::uint32_t port_rate_mbps = 0;        // of the host's link, likewise; 0: no rate
  std::string controller, controller_key;  // its switches' and hosts'; none: empty
  std::string name;                        // of the host: its entry in the key file
  std::string lab;
};

[[nodiscard]] nlohmann::ordered_json describe_lab(const std::string& lab);
// `host`: its name, or an address. Inside a host of the lab, too.
[[nodiscard]] HostNamespaces open_host(const std::string& lab, const std::string& host);
void take_down(const std::string& lab);  // returns when every process of the lab is gone

// The switch's answers (utils/brdma-switch/requests/control.h).
[[nodiscard]] nlohmann::ordered_json show_switch(const std::string& lab);
[[nodiscard]] nlohmann::ordered_json set_switch(const std::string& lab, const NetworkOptions& options);
// Any other request to the switch.
nlohmann::ordered_json ask_switch(const std::string& lab, const nlohmann::ordered_json& request);

}  // namespace brdma::lab
