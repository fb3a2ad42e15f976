// brdma-metrics/families.h - the metrics of a host, made from brdmad's answers (docs/howto/metrics.md). Pure.
//
//   brdma_<counter>_total{device}              each counter and drop reason of trace/counters.h, trace/drop_reason.h
//   node_infiniband_<name>{device,port}        those that node_exporter's infiniband collector names (node_names.h)
//   brdma_qp_<counter>_total{device,qp,comm}   each counter of trace/qp_counters.h, on request
//   brdma_daemon_<key>_total, brdma_cm_...     brdmad's own, and those of RDMA-CM, as brdmad names them
//
// Bounded whatever the answers hold: kDevicesMax devices, kQueuePairsMax queue pairs, kDaemonKeysMax keys a group.
// Values are doubles, as in Prometheus: exact up to 2^53.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bitmaprdma/context.h"

namespace brdma::metrics {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kDevicesMax = 256, kQueuePairsMax = 1024, kDaemonKeysMax = 64;

struct Facts {
  std::vector<DeviceInfo> devices;  // of this network namespace
  Json statistics;                  // brdmad's answer to "statistics"; null: it did not answer
  Json alarms;                      // likewise, to "alarms"
  Json queue_pairs;                 // likewise, to "queue_pair_statistics"; null: not wanted, too
};

// Prometheus' text, version 0.0.4. Members of the answers that are missing or of another type are left out.
[[nodiscard]] std::string metrics_text(const Facts& facts);

}  // namespace brdma::metrics
