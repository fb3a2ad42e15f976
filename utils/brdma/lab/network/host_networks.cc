#include "lab/network/host_networks.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "lab/network/offload.h"
#include "lab/network/system_failure.h"

namespace brdma::lab {
namespace {

// For the calling thread's network namespace. Best effort: /proc/sys may be read-only; the only consequence is a little
// IPv6 chatter.
void set_sysctl(const std::string& name, const char* value) {
  const io::FileDescriptor file{open(("/proc/sys/net/" + name).c_str(), O_WRONLY | O_CLOEXEC)};
  if (file.valid()) (void)!write(file.get(), value, 1);
}

}  // namespace

io::FileDescriptor open_own_namespace(const char* kind) {
  io::FileDescriptor fd{open((std::string{"/proc/self/ns/"} + kind).c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd.valid()) fail(std::string{"cannot open the "} + kind + " namespace");
  return fd;
}

void HostNetworks::set_up() {
  middle_ = open_own_namespace("net");
  middle_links_.emplace();
  middle_links_->set_up("lo");
  set_sysctl("ipv6/conf/default/disable_ipv6", "1");
  make_hosts();
  if (plan_.wants_switch()) {
    join_by_switch();
  } else if (plan_.hosts == 2) {
    join_directly();
  } else if (plan_.hosts > 2) {
    join_by_bridge();
  }
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) configure_host(host);
  middle_links_.reset();
}

void HostNetworks::return_to_middle() {
  if (setns(middle_.get(), CLONE_NEWNET) != 0) fail("cannot return to the lab's middle");
}

void HostNetworks::make_hosts() {
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    if (unshare(CLONE_NEWNET) != 0) fail("cannot make the network namespace of " + host_name(host));
    hosts_.push_back(open_own_namespace("net"));
    host_links_.emplace_back().set_up("lo");
    // Link-local addresses are usable at once; no host is a router.
    set_sysctl("ipv6/conf/default/accept_dad", "0");
    set_sysctl("ipv6/conf/default/router_solicitations", "0");
  }
  return_to_middle();
}

void HostNetworks::join_directly() {
  middle_links_->create_veth({kHostInterface, host_index(1), host_mac(1), hosts_[0].get()},
                             {kHostInterface, host_index(2), host_mac(2), hosts_[1].get()}, plan_.interface_mtu());
}

void HostNetworks::connect_to_middle(std::uint32_t host) {
  middle_links_->create_veth({host_name(host), switch_index(host), switch_mac(host), -1},
                             {kHostInterface, host_index(host), host_mac(host), hosts_[host - 1].get()},
                             plan_.interface_mtu());
  middle_links_->set_up(host_name(host));
}

void HostNetworks::join_by_bridge() {
  try {
    middle_links_->create_bridge("bridge", plan_.interface_mtu());
  } catch (const std::system_error& error) {
    if (error.code().value() != EOPNOTSUPP) throw;
    return join_by_switch();  // a kernel without bridges: the switch forwards too, only slower
  }
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    connect_to_middle(host);
    middle_links_->set_master(host_name(host), "bridge");
  }
  middle_links_->set_up("bridge");
}

void HostNetworks::join_by_switch() {
  need_switch_ = true;
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) connect_to_middle(host);
}

// Sets the host's addresses and its neighbours' entries: nothing has to be resolved, so no such packet can be lost.
void HostNetworks::configure_host(std::uint32_t host) {
  Netlink& links = host_links_[host - 1];
  if (plan_.hosts == 1 && !plan_.topology) return;  // a single host has its loopback
  links.add_address(kHostInterface, plan_.host_ipv4(host), 24);
  links.add_address(kHostInterface, plan_.host_ipv6(host), 64);
  links.set_up(kHostInterface);
  if (plan_.topology) return lead_to_router(host);
  for (std::uint32_t other = 1; other <= plan_.hosts; ++other) {
    if (other == host) continue;
    links.add_neighbour(kHostInterface, plan_.host_ipv4(other), host_mac(other));
    links.add_neighbour(kHostInterface, plan_.host_ipv6(other), host_mac(other));
  }
}

// All packets go to the switch's port: those for other subnets by the gateway, those for neighbours directly, because
// the neighbours are behind that router too.
void HostNetworks::lead_to_router(std::uint32_t host) {
  Netlink& links = host_links_[host - 1];
  const auto& hosts = plan_.topology->hosts;
  const std::uint32_t at = hosts[host - 1].at;
  for (const std::string& gateway :
       {subnet_ipv4(at, fabric::kGatewayNumber), subnet_ipv6(at, fabric::kGatewayNumber)}) {
    links.add_neighbour(kHostInterface, gateway, switch_mac(host));
    links.add_default_route(kHostInterface, gateway);
  }
  for (std::uint32_t other = 1; other <= plan_.hosts; ++other) {
    if (other == host || hosts[other - 1].at != at) continue;
    links.add_neighbour(kHostInterface, plan_.host_ipv4(other), switch_mac(host));
    links.add_neighbour(kHostInterface, plan_.host_ipv6(other), switch_mac(host));
  }
}

void HostNetworks::adapt_to_switch(bool takes_batches) {
  for (std::uint32_t host = 1; host <= plan_.hosts; ++host) {
    if (setns(host_fd(host), CLONE_NEWNET) != 0) fail("cannot enter " + host_name(host));
    leave_no_segmentation_to(kHostInterface, takes_batches);
  }
  return_to_middle();
}

void HostNetworks::wait_until_running() {
  for (std::uint32_t host = 1; host <= plan_.hosts && plan_.hosts > 1; ++host) {
    host_links_[host - 1].wait_until_running(kHostInterface);
  }
  host_links_.clear();
}

}  // namespace brdma::lab
