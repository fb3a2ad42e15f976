#include "fabric/controller/host_directory.h"

namespace brdma::fabric::controller {

bool HostDirectory::admits(const HostHello& hello) const {
  if (hello.id.empty() || hello.addresses.size() > kAddressesMax) return false;
  return hosts_.size() < kHostsMax || hosts_.contains(hello.id);
}

void HostDirectory::add(const HostHello& hello) {
  hosts_[hello.id] = hello;
  for (const IpAddress& address : hello.addresses) host_of_[address] = hello.id;
}

bool HostDirectory::remove(const std::string& id) {
  const auto host = hosts_.find(id);
  if (host == hosts_.end()) return false;
  for (const IpAddress& address : host->second.addresses) {
    if (const auto owner = host_of_.find(address); owner != host_of_.end() && owner->second == id) {
      host_of_.erase(owner);
    }
  }
  hosts_.erase(host);
  return true;
}

const std::string* HostDirectory::find(const IpAddress& address) const {
  const auto host = host_of_.find(address);
  return host == host_of_.end() ? nullptr : &host->second;
}

}  // namespace brdma::fabric::controller
