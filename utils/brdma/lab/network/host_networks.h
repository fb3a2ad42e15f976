// lab/network/host_networks.h - the hosts' network namespaces and their connection: interfaces, addresses, neighbours.
// Works in the calling thread's network namespace, which becomes the lab's middle. Throws std::system_error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/system/file_descriptor.h"
#include "lab/network/netlink.h"
#include "lab/network/plan.h"

namespace brdma::lab {

[[nodiscard]] io::FileDescriptor open_own_namespace(const char* kind);  // "net", "pid", "mnt", "user"

class HostNetworks {
 public:
  explicit HostNetworks(const LabPlan& plan) : plan_(plan) {}

  // Makes the hosts and joins them. Afterwards the thread is in the middle again.
  void set_up();
  // Nothing joins the hosts yet: each link's other end is in the middle, named as the host, for the switch.
  [[nodiscard]] bool need_switch() const { return need_switch_; }
  // With a running switch: leaves to the hosts' interfaces only the segmentation that the switch can do itself.
  void adapt_to_switch(bool takes_batches);
  // Returns when every host can send.
  void wait_until_running();

  [[nodiscard]] int host_fd(std::uint32_t host) const { return hosts_[host - 1].get(); }

 private:
  void make_hosts();
  void join_directly();
  void join_by_bridge();
  void join_by_switch();
  void connect_to_middle(std::uint32_t host);
  void configure_host(std::uint32_t host);
  void lead_to_router(std::uint32_t host);
  void return_to_middle();

  const LabPlan& plan_;
  io::FileDescriptor middle_;
  std::vector<io::FileDescriptor> hosts_;
  std::vector<Netlink> host_links_;  // a socket in each host, until the hosts run
  std::optional<Netlink> middle_links_;
  bool need_switch_ = false;
};

}  // namespace brdma::lab
