// fabric/controller/host_directory.h - the hosts with a session, by identifier and by address. An address belongs to
// the host that has named it last.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/ip_address.h"
#include "fabric/controller/member_messages.h"

namespace brdma::fabric::controller {

class HostDirectory {
 public:
  static constexpr std::size_t kHostsMax = 4096, kAddressesMax = 64;

  // False: no name, too many addresses, or no place for another host.
  [[nodiscard]] bool admits(const HostHello& hello) const;
  // Precondition: admits(hello), and no host has its identifier.
  void add(const HostHello& hello);
  // False: there is none.
  bool remove(const std::string& id);

  [[nodiscard]] bool contains(const std::string& id) const { return hosts_.contains(id); }
  // The host with this address; null: none. Valid until the next add() or remove().
  [[nodiscard]] const std::string* find(const IpAddress& address) const;
  [[nodiscard]] const std::map<std::string, HostHello>& hosts() const { return hosts_; }

 private:
  std::map<std::string, HostHello> hosts_;
  std::map<IpAddress, std::string> host_of_;
};

}  // namespace brdma::fabric::controller
