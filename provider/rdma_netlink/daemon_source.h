// rdma_netlink/daemon_source.h - the devices of this network namespace, and what its brdmad knows of their programs.
#pragma once

#include <array>
#include <string_view>

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

// Soft-RoCE's names, and the counter of ours that counts the same (docs/reference/counters.md); in the kernel's order.
struct CounterName {
  std::string_view kernel, ours;
};
inline constexpr std::array kKernelCounters{
    CounterName{"sent_pkts", "sent_pkts"},
    CounterName{"rcvd_pkts", "rcvd_pkts"},
    CounterName{"duplicate_request", "duplicate_request"},
    CounterName{"out_of_seq_request", "out_of_sequence"},
    CounterName{"rcvd_rnr_err", "rcvd_rnr_err"},
    CounterName{"send_rnr_err", "send_rnr_err"},
    CounterName{"rcvd_seq_err", "packet_seq_err"},
    CounterName{"ack_deferred", "acks_piggybacked"},
    CounterName{"retry_exceeded_err", "retry_exceeded_err"},
    CounterName{"retry_rnr_exceeded_err", "retry_rnr_exceeded_err"},
    CounterName{"completer_retry_err", "local_ack_timeout_err"},
    CounterName{"send_err", "send_failed_pkts"},
    CounterName{"link_downed", ""},  // the interface's own: how often its carrier went
    CounterName{"rdma_sends", "rdma_sends"},
    CounterName{"rdma_recvs", "rdma_recvs"},
};

}  // namespace brdma::provider::nldev
