// brdmad/queries/watch.h - polls the statistics pages of all leases: takes their events, evaluates alarms, answers
// queries about both. Costs the programs nothing: they write that memory anyway.
//
// Polls once a second while there are leases (kLook), and every 20 ms while a client waits for events (kLookFollowed):
// an earlier notification would cost the engine a system call. Without leases it does nothing.
//
//   {"query":"events","after":N,"wait":true}   events with a number above N; "wait": as soon as there is one, or none
//                                              within 4 s
//   {"query":"alarms"}                         each lease's alarms and values, thresholds
//   {"query":"alarm_set","settings":{"alarm.stall_seconds":5}}   the daemon's user's and root's
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/alarms.h"
#include "lease/lease_book.h"
#include "queries/event_log.h"

namespace brdma::daemon {

namespace asio = boost::asio;

class Watch {
 public:
  using Json = nlohmann::ordered_json;
  using Done = std::function<void(std::string line)>;
  static constexpr std::chrono::milliseconds kLook{1000}, kLookFollowed{20}, kWaitMax{4000};

  Watch(asio::io_context& context, LeaseBook& book, const control::AlarmThresholds& thresholds)
      : book_(book), thresholds_(thresholds), timer_(context), log_(book) {}

  void lease_begun() { look_soon(); }
  void lease_adopted(std::uint32_t slot) { log_.add_adopted(slot); }  // it began under an earlier worker
  void lease_ending(std::uint32_t slot);                              // its page is still there
  struct Asker {
    bool may_change = false;
    std::optional<std::uint32_t> sees_only;  // only events of that user's programs
  };
  // Called by the sessions. False: not a question of this kind.
  [[nodiscard]] bool answer(const Json& request, const Asker& asker, Done done);

 private:
  struct Waiting {
    std::uint64_t after;
    std::optional<std::uint32_t> sees_only;
    std::chrono::steady_clock::time_point until;
    Done done;
  };

  void look_soon();
  void look();
  void collect(std::uint32_t slot);
  // By user and device of the programs, as they are now.
  using Uses = std::map<std::pair<std::uint32_t, std::string>, DeviceUse::Sum>;
  void evaluate(std::uint32_t slot, Uses& uses);
  void serve_waiting();
  [[nodiscard]] Json alarms() const;
  [[nodiscard]] Json set_alarms(const Json& request, bool may_change);

  LeaseBook& book_;
  control::AlarmThresholds thresholds_;
  asio::steady_timer timer_;
  bool looking_ = false;
  EventLog log_;
  std::map<std::uint64_t, control::AlarmBook> alarms_;  // by lease
  std::chrono::steady_clock::time_point evaluated_;
  std::vector<Waiting> waiting_;
};

}  // namespace brdma::daemon
