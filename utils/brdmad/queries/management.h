// brdmad/queries/management.h - queries that the processes themselves must answer: settings, state of queue pairs. Asks
// the processes concerned, waits at most kAnswerMax for their answers, and merges them.
//
//   {"query":"recovery","device":D,"qp":N}                      settings in force
//   {"query":"recovery_set","device":D,"qp":N,"settings":{...}}
//   {"query":"recovery_retransmit","device":D,"qp":N,"psn":P,"count":C,"gaps":true}   by hand
//   (io/management/management.h)
//   {"query":"resource","what":"objects"|"qp"|"cq"|"mr"|"pd"|"srq"|"gap"|"duplicate","device":D,"qp":N}
//   {"query":"queue_pair_statistics","device":D,"qp":N}
//   {"query":"managed"}                                         destinations on their managed lists (design WT-10)
//   {"query":"managed_add"|"managed_remove","destination":ADDRESS}
// "device" and "qp" are optional. Answer: {"answers":[{as in "leases", and the process's answer, or "error"}]}; of
// "recovery" and "recovery_set" also "devices": the settings of each made at run time.
//
// The lease's user and root may make changes. Those of a device apply to later programs too: only the daemon's user and
// root may make them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace brdma::daemon {

struct SessionHost;

inline constexpr std::chrono::seconds kAnswerMax{3};

// True: such a question; `done` gets the line to answer, at once or later. False: it is none.
[[nodiscard]] bool begin_management(SessionHost& host, std::uint32_t asker_uid, std::string_view line,
                                    std::function<void(std::string)> done);

}  // namespace brdma::daemon
