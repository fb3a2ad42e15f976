// brdma-metrics/node_names.h - counters that node_exporter's infiniband collector shows for hardware, and its name for
// each, without "node_infiniband_" and "_total". Only where the same thing is counted: dashboards made for hardware
// then show these devices too.
#pragma once

#include <array>
#include <string_view>

namespace brdma::metrics {

struct NodeName {
  std::string_view counter;  // a name of trace/counters.h or trace/drop_reason.h
  std::string_view name;
};

inline constexpr std::array kNodeNames{
    NodeName{"sent_bytes", "port_data_transmitted_bytes"},
    NodeName{"rcvd_bytes", "port_data_received_bytes"},
    NodeName{"sent_pkts", "port_packets_transmitted"},
    NodeName{"rcvd_pkts", "port_packets_received"},
    NodeName{"duplicate_request", "duplicate_requests_packets"},
    NodeName{"out_of_sequence", "out_of_sequence_packets_received"},
    NodeName{"packet_seq_err", "packet_sequence_errors"},
    NodeName{"local_ack_timeout_err", "local_ack_timeout_errors"},
    NodeName{"rcvd_rnr_err", "rnr_nak_retry_packets_received"},
    NodeName{"req_cqe_flush_error", "req_cqes_flush_errors"},
    NodeName{"resp_remote_access_errors", "resp_remote_access_errors"},
    NodeName{"rx_write_requests", "rx_write_requests"},
    NodeName{"rx_read_requests", "rx_read_requests"},
    NodeName{"rx_atomic_requests", "rx_atomic_requests"},
    NodeName{"drop_bad_icrc", "rx_icrc_encapsulated_errors"},
    NodeName{"np_ecn_marked_roce_packets", "np_ecn_marked_roce_packets_received"},
    NodeName{"np_cnp_sent", "np_cnp_packets_sent"},
    NodeName{"rp_cnp_handled", "rp_cnp_packets_handled"},
    NodeName{"rp_cnp_ignored", "rp_cnp_ignored_packets_received"},
};

}  // namespace brdma::metrics
