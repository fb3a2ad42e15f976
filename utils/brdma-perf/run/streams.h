// run/streams.h - the client's streams of messages: each lane keeps `depth` of them in flight.
//
// Messages are endless and alike (bw, rate, load of lat), or parts of flows (fct). Completions of a lane come in order;
// not every message asks for one (`moderation`), which then stands for those before it.
// Slots, on both sides: plain message i of a lane is in slot i modulo depth. Of WRITEs one in crc_every is *checked*:
// it goes with an immediate, its length, to one of kCheckedSlots further slots, and only where the server has reported
// by a credit that it has looked at what was there before.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "run/checker.h"
#include "run/greeting.h"
#include "values/flows.h"
#include "values/recording.h"
#include "verbs/endpoint.h"

namespace brdma::perf {

// When a run is over: no new messages from then on.
struct Limits {
  std::int64_t end = kForever;  // ns from the run's start
  std::uint64_t count = 0;      // messages or flows; 0: no limit
};

class Streams {
 public:
  Streams(Endpoint& endpoint, Checker& checker, Recording& recording, const Plan& plan,
          std::optional<Arrivals> arrivals);

  // Posts what there is room for at `now` (ns from the start). `stopping`: nothing new.
  void post(std::int64_t now, bool stopping);
  void handle(const ibv_wc& completion, std::int64_t now);

  // Messages (fct: flows) begun, of all lanes that count.
  [[nodiscard]] std::uint64_t begun() const { return begun_; }
  void limit(std::uint64_t count) { count_max_ = count; }
  [[nodiscard]] bool idle() const;  // nothing is in flight or waits
  // When something is to be done without a completion: the next flow. Arrivals::kNever: never.
  [[nodiscard]] std::int64_t next_time() const { return arrivals_ ? arrivals_->next() : Arrivals::kNever; }

  [[nodiscard]] std::uint64_t messages() const { return messages_; }
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t load_bytes() const { return load_bytes_; }
  [[nodiscard]] const std::vector<LaneCount>& counts() const { return counts_; }

 private:
  struct Flow {
    std::int64_t begun;
    std::uint64_t bytes, to_post, to_complete;
  };
  struct InFlight {
    std::int64_t posted;
    std::uint64_t number;
    std::uint32_t bytes;
  };
  struct Stream {
    std::uint32_t lane = 0;
    bool is_load = false;  // beside what is measured
    bool by_flows = false;
    std::uint32_t moderation = 1, unsignaled = 0, credits = 0;
    std::uint64_t posted = 0, completed = 0, since_checked = 0;
    std::vector<InFlight> in_flight;  // a ring of `depth`
    std::deque<Flow> flows;           // in the order of their beginning; the first is complete first
    std::size_t posting = 0;          // the flow whose messages are posted now
  };
  void begin_flows(std::int64_t now, bool stopping);
  void begin_flow(Stream& stream, std::int64_t at);
  void post_stream(Stream& stream, std::int64_t now, bool stopping);
  [[nodiscard]] std::uint32_t next_bytes(Stream& stream, bool stopping);
  void post_message(Stream& stream, std::uint32_t bytes, std::int64_t now, bool last);
  [[nodiscard]] Post prepared(Stream& stream, std::uint32_t bytes, std::uint64_t& number);
  void complete(Stream& stream, std::int64_t now);
  void check_content(const Stream& stream, const InFlight& message, std::uint32_t slot);
  void complete_flow(Stream& stream, std::uint32_t bytes, std::int64_t now);

  Endpoint& endpoint_;
  Checker& checker_;
  Recording& recording_;
  std::optional<Arrivals> arrivals_;
  std::vector<Stream> streams_;
  std::vector<std::size_t> stream_of_lane_;
  std::vector<LaneCount> counts_;
  bool sample_messages_;
  std::uint64_t begun_ = 0, count_max_ = 0, next_stream_ = 0;
  std::uint64_t messages_ = 0, bytes_ = 0, load_bytes_ = 0;
};

}  // namespace brdma::perf
