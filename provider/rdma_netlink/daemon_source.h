// rdma_netlink/daemon_source.h - the devices of this network namespace, and what its brdmad knows of their programs.
#pragma once

#include <array>

#include "rdma_netlink/source.h"

namespace brdma::provider::nldev {

class DaemonSource final : public Source {
 public:
  [[nodiscard]] std::vector<DeviceInfo> devices() override;
  [[nodiscard]] Result<std::vector<Entry>, int> entries(Resource kind, const DeviceInfo& device, bool keys) override;
  [[nodiscard]] Result<std::array<std::uint64_t, kResources>, int> summary(const DeviceInfo& device) override;
  [[nodiscard]] Result<Counters, int> counters(const DeviceInfo& device) override;

 private:
  [[nodiscard]] Result<std::vector<Entry>, int> cm_ids(const DeviceInfo& device);
  [[nodiscard]] Result<std::vector<Entry>, int> contexts(const DeviceInfo& device);
};

}  // namespace brdma::provider::nldev
