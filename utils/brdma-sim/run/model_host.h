// run/model_host.h - a host of a scenario that runs models of other protocols (models/model.h) instead of an engine:
// the two ends of its flows, and its port, which takes a frame whenever its link is free. Answers go first, then the
// senders take turns, one frame each.
//
// Frames are packets without payload (sim/packet_pool.h). A flipped bit is a loss: every protocol has a checksum.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/units.h"
#include "fabric/switch/departure_time.h"
#include "models/model.h"
#include "sim/station.h"
#include "sim/wake_list.h"

namespace brdma::simulator {

class ModelHost : public sim::Station {
 public:
  // `rate`: of its link; none: frames take no time.
  ModelHost(sim::PacketPool& pool, const IpAddress& address, const std::optional<Bandwidth>& rate)
      : pool_(pool), address_(address), rate_(rate) {}

  // A flow of this host begins. `peer` has accepted it.
  void begin(models::FlowId flow, std::unique_ptr<models::Sender> sender, const IpAddress& peer, std::uint64_t bytes,
             Instant now);
  void accept(models::FlowId flow, std::unique_ptr<models::Receiver> receiver, const IpAddress& peer);
  // Flows of this host that are done since the last call.
  [[nodiscard]] std::vector<models::FlowId> take_done();
  // Of all its senders, past ones too.
  [[nodiscard]] models::Counters counters() const;

  [[nodiscard]] const IpAddress& address() const override { return address_; }
  void handle_arrival(sim::PacketIndex packet, Instant now) override;
  [[nodiscard]] std::optional<Instant> next_wake(Instant now) const override;
  bool run(Instant now, SendPacket send) override;

 private:
  struct End {
    models::FlowId flow = 0;
    std::unique_ptr<models::Sender> sender;  // one of the two; none: done
    std::unique_ptr<models::Receiver> receiver;
    IpAddress peer;
    bool in_turn = false;
  };
  struct Answer {
    std::uint32_t end;
    models::Frame frame;
  };
  std::uint32_t add(End end);
  void arrange(std::uint32_t number, Instant now);  // its turn and its deadlines
  void arrive(std::uint32_t number, const models::Frame& frame, Instant now);
  void keep_deadlines(Instant now);
  void keep_answers(std::uint32_t number);
  void end_if_done(End& end);
  [[nodiscard]] bool send_one(Instant now, SendPacket send);  // false: nothing to send
  void transmit(const End& end, models::Frame frame, Instant now, SendPacket send);

  sim::PacketPool& pool_;
  IpAddress address_;
  std::optional<Bandwidth> rate_;
  fabric::DepartureTime free_;  // when its link is
  std::vector<End> ends_;
  std::unordered_map<models::FlowId, std::uint32_t> by_flow_;
  sim::WakeList deadlines_;  // of ends
  std::deque<std::uint32_t> turns_;
  std::deque<Answer> answers_;
  std::vector<models::Frame> made_;  // answers of one call
  std::vector<models::FlowId> done_;
  bool is_done_new_ = false;  // some have been added since it ran: it runs, so that its owner asks
  models::Counters ended_;    // of senders that are done
};

// The frame of a packet, and a switch's notification of a dropped one: none for answers.
[[nodiscard]] models::Frame frame_of(const sim::Packet& packet);
[[nodiscard]] std::optional<sim::PacketIndex> notice_of(sim::PacketPool& pool, const sim::Packet& dropped, Instant now);

}  // namespace brdma::simulator
