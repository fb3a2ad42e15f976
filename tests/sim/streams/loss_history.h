// sim/streams/loss_history.h - the parts of the recovery time of each lost packet of a stream: the receiver's reports
// and which of them arrived, the copies and which of them were lost too.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "sim/host.h"
#include "wire/control.h"

namespace brdma::test {

// One lost packet. Times of events that did not occur are empty.
struct LossStory {
  std::uint64_t place = 0;  // packets from the first one of the stream
  Instant first_sent;
  Duration shortest_trip;          // of all packets until then: without a queue
  std::vector<Instant> copies;     // transmission times, the first included
  std::optional<Instant> shown;    // a later packet arrived: the receiver can see the gap
  std::vector<Instant> feedbacks;  // when an FFM named it ...
  bool first_feedback_heard = false;
  std::optional<Instant> reported;  // an FFM, or an acknowledgement's `judged`, first reached the sender
  Instant placed;
  [[nodiscard]] Duration recovery() const { return placed - first_sent - shortest_trip; }
};

class LossHistory : public sim::Observer {
 public:
  LossHistory(const sim::Host& sender, const sim::Host& receiver, Psn first)
      : sender_(sender), receiver_(receiver), first_(first) {}

  void sent(const sim::Host& from, const sim::Packet& packet, Instant now) override;
  void received(const sim::Host& by, const sim::Packet& packet, Instant now) override;

  [[nodiscard]] const std::vector<LossStory>& stories() const { return stories_; }  // of recovered packets

 private:
  struct Flight {
    std::vector<Instant> copies;
    bool placed = false;
  };
  struct Missing {
    Instant shown;
    std::vector<Instant> feedbacks;
    bool first_feedback_heard = false;
    std::optional<Instant> reported;
  };
  [[nodiscard]] std::int64_t place_of(Psn psn) const;
  void feedback_left(const wire::Ffm& ffm, Instant now);
  void feedback_came(const wire::Ffm& ffm, Instant now);
  template <class Do>
  void for_each_named(const wire::Ffm& ffm, const Do& what);
  void arrived(std::int64_t place, Instant now);
  void judged(const wire::BitmapAck& ack, Instant now);

  const sim::Host& sender_;
  const sim::Host& receiver_;
  Psn first_;
  std::vector<Flight> flights_;
  std::int64_t highest_ = -1;  // highest that has arrived
  Duration shortest_{};
  std::unordered_map<std::int64_t, Missing> missing_;
  std::vector<LossStory> stories_;
};

}  // namespace brdma::test
