// device_files/counter_files.h - the files of a device's counters, and what they say: read from brdmad whenever a
// program opens one. Soft-RoCE's names in hw_counters, those of adapters in counters.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"

namespace brdma::preload {

// A name, and the counter of the device that counts the same (docs/reference/counters.md). Empty: the interface's
// losses of its carrier.
struct CounterName {
  std::string_view name, counter;
};
// In the kernel's order.
inline constexpr std::array kHardwareCounters{
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
    CounterName{"link_downed", ""},
    CounterName{"rdma_sends", "rdma_sends"},
    CounterName{"rdma_recvs", "rdma_recvs"},
};
// Soft-RoCE has none; collectors look here. Data in words of 4 bytes, as the specification has it.
inline constexpr std::array kPortCounters{
    CounterName{"port_xmit_data", "sent_bytes"},           CounterName{"port_rcv_data", "rcvd_bytes"},
    CounterName{"port_xmit_packets", "sent_pkts"},         CounterName{"port_rcv_packets", "rcvd_pkts"},
    CounterName{"port_xmit_discards", "send_failed_pkts"}, CounterName{"link_downed", ""},
};
// Of RDMA-CM, in each of four directories.
inline constexpr std::array<std::string_view, 11> kConnectionMessages{
    "req", "mra", "rej", "rep", "rtu", "dreq", "drep", "sidr_req", "sidr_rep", "lap", "apr"};
inline constexpr std::array<std::string_view, 4> kConnectionGroups{"cm_rx_msgs", "cm_tx_msgs", "cm_tx_retries",
                                                                   "cm_rx_duplicates"};

// All of kHardwareCounters, by their names. Error: errno value, when brdmad does not answer; without one all are 0.
using CounterValues = std::vector<std::pair<std::string_view, std::uint64_t>>;
[[nodiscard]] Result<CounterValues, int> hardware_counters(const DeviceInfo& device);

// True if a file of this name may be a counter: a cheap look, before others.
[[nodiscard]] bool may_be_counter(std::string_view file_name);

// The counter behind ".../DEVICE/ports/1/GROUP/NAME"; none: the path is no counter's.
struct CounterFile {
  std::string device, group, name;
};
[[nodiscard]] std::optional<CounterFile> parse_counter_path(std::string_view path);
// Its value now.
[[nodiscard]] Result<std::uint64_t, int> counter_value(const CounterFile& file, const DeviceInfo& device);

}  // namespace brdma::preload
