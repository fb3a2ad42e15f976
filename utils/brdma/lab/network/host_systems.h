// lab/network/host_systems.h - what makes the hosts of a lab hosts to programs, beside their networks: a name (UTS
// namespace), and mounts of their own with that name in /etc/hostname and all hosts in /etc/hosts. Works in the calling
// thread's namespaces, to which it returns. Throws std::system_error.
#pragma once

#include <string>
#include <vector>

#include "io/system/file_descriptor.h"
#include "lab/network/plan.h"

namespace brdma::lab {

class HostSystems {
 public:
  explicit HostSystems(const LabPlan& plan) : plan_(plan) {}

  // Precondition: one thread, and no mount of this namespace reaches another one.
  void set_up();
  [[nodiscard]] int mount_fd(std::uint32_t host) const { return hosts_[host - 1].mount.get(); }
  [[nodiscard]] int uts_fd(std::uint32_t host) const { return hosts_[host - 1].uts.get(); }
  // Why the names are not in /etc/hosts; empty: they are.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

 private:
  struct Host {
    io::FileDescriptor mount, uts;
  };
  [[nodiscard]] std::string hosts_file() const;
  void write_names(std::uint32_t host, const std::string& hosts_file);

  const LabPlan& plan_;
  std::vector<Host> hosts_;
  std::string trouble_;
};

}  // namespace brdma::lab
