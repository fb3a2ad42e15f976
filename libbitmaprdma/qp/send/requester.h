// qp/send/requester.h - the sending half of an RC queue pair: work requests become packets, acknowledgements become
// completions, losses become retransmissions read from the application's memory again.
//
// One file per flow: post_send.cc, transmit_new.cc, retransmissions.h, handle_ack.cc (acknowledgements, NAKs, FFM,
// EDN), handle_response.cc (READ responses, atomic acknowledgements), timeout.cc, complete.cc (passed_messages.h).
//
// READs go out as chunks, each a READ request of its own, at most as many as this side's socket can take the responses
// of: flow control by the receiver, with any peer. Only missing responses are re-requested.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/transmit_interest.h"
#include "bitmaprdma/types.h"
#include "congestion/managed_list.h"
#include "congestion/rate_control.h"
#include "qp/paths/paths_send.h"
#include "qp/queues/transmit_batch.h"
#include "qp/send/pace.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/state/memory_use.h"
#include "qp/state/open_gap.h"
#include "wire/control.h"
#include "wire/edn.h"
#include "wire/link_state.h"
#include "wire/packet.h"
#include "wire/stopped_peer.h"

namespace brdma::qp {

struct IrnTimeouts;  // sender_judge.h

class Requester {
 public:
  Requester(Environment& environment, Identity& identity);
  ~Requester();

  void fetch_ahead() const;  // idle.cc: prefetches its state
  void fetch_slots() const;  // and the slot of the next request
  // Up to the first that fails: EINVAL, ENOMEM. `posted`: how many succeeded.
  Status post_send(std::span<const SendRequest> requests, std::size_t& posted);
  [[nodiscard]] Status check_send(std::span<const SendRequest> requests) const;  // for all of them, changing nothing
  void start(Psn first);                                                         // RTR -> RTS
  void reset();
  void flush(Instant now);  // to ERR: all completes as kFlushed, in order
  // `source_port`: the packet's UDP source port, which gives its path.
  // ACK/NAK, READ responses, atomic acknowledgements.
  Outcome handle_response(const wire::Packet& packet, std::uint16_t source_port, Instant now);
  Outcome handle_bitmap_ack(const wire::BitmapAck& ack, std::uint16_t source_port, Instant now);
  Outcome handle_ffm(const wire::Ffm& ffm, Instant now);
  Outcome handle_edn(const wire::Edn& edn, Instant now);
  Outcome handle_timeout(Instant now);
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  // Errors found by output (memory that is gone, a completion queue that is full) on which only the queue pair may act.
  // Read after poll_requests().
  Outcome take_outcome(Instant now);

  // Retransmissions first, then new packets, within window, credit and congestion window. True: at least one was added.
  bool poll_requests(TransmitBatch& batch, Instant now);
  [[nodiscard]] TransmitInterest interest(Instant now) const;
  void withdraw(Instant made, Instant now);  // QueuePair::withdraw
  void bitmap_agreed(Instant now);           // the identity has it

  [[nodiscard]] bool all_complete() const;   // all posted work requests
  [[nodiscard]] bool ends_soon() const;      // a few batches hold all unsent data
  [[nodiscard]] bool next_is_large() const;  // the next packet belongs to a large command (segments.h)
  // Nothing is posted, in flight or awaited: no output and no deadline until an event (idle.cc).
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] bool idle() const;  // no work request outstanding (SQ drained)

  // State for management (resource show, tests).
  struct Snapshot {
    Psn base, next;                          // oldest PSN not done, first never sent
    std::size_t operations = 0;              // of large commands, in progress
    std::uint32_t unacked = 0, pending = 0;  // entries of the send window; those to be retransmitted
    std::size_t messages = 0;                // begun, not done
    std::uint64_t work_requests = 0;         // posted, not complete
    std::uint32_t flight_packets = 0, responses_messages = 0, responses_packets = 0;
    std::uint64_t flight_bytes = 0, pipe_bytes = 0, responses_bytes = 0, congestion_bytes = 0;
    std::optional<Bandwidth> rate;           // where a rate is kept
    std::optional<Bandwidth> response_rate;  // at which READ responses are requested
    Duration srtt, base_rtt;                 // smoothed; the recent minimum
    bool waits_for_receiver = false;         // RNR
    std::uint32_t window = 0;                // maximum length of the send window
    std::uint32_t looked_at = 0;             // cost of acknowledgements: entries, words of 64 bits; wraps
    bitmap::WindowUse bitmap;
  };
  [[nodiscard]] std::uint32_t packets_in_flight() const;  // sent, not acknowledged; a READ request counts as one
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] congestion::ManagedDestination* managed() const;  // its peer's; null: none
  [[nodiscard]] Bandwidth delivered() const;                      // recent; 0: not known

  struct Impl;
  // The parts, for views of them: pacing.h, inquiry/, qp/state/management.h. The pending RTT sample is applied first.
  [[nodiscard]] Impl& parts() const { return *impl_; }
  [[nodiscard]] Impl& impl() const { return impl_.as_it_is(); }  // for files that inline it

 private:
  Outcome handle_aeth(const wire::Packet& packet, Instant now);  // handle_ack.cc

  // Access applies the pending RTT sample first (Environment::round_trip).
  class Parts {
   public:
    explicit Parts(std::unique_ptr<Impl> parts);
    ~Parts();
    [[nodiscard]] Impl* operator->() const { return up_to_date(); }
    [[nodiscard]] Impl& operator*() const { return *up_to_date(); }
    [[nodiscard]] bool operator==(std::nullptr_t) const { return impl_ == nullptr; }
    [[nodiscard]] Impl& as_it_is() const { return *impl_; }

   private:
    [[nodiscard]] Impl* up_to_date() const;
    std::unique_ptr<Impl> impl_;
  };
  Parts impl_;
};

}  // namespace brdma::qp
