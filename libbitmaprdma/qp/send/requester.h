// qp/send/requester.h - the sending half of an RC queue pair: work requests become packets, acknowledgements become
// completions, losses become retransmissions read from the application's memory again.
//
// One file per flow: post_send.cc, transmit_new.cc, resend.cc, handle_ack.cc, handle_feedback.cc, handle_edn.cc,
// handle_response.cc (READ responses, atomic acknowledgements), timeout.cc, complete.cc.
//
// READs go out as chunks, each a READ request of its own, no more of them at a time than this side's socket can take
// the responses of: flow control by the receiver, with any peer. Missing responses are asked for again, and only they.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

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
  Requester(const Environment& environment, Identity& identity);
  ~Requester();

  void fetch_ahead() const;  // idle.cc: its state into the cache
  void fetch_slots() const;  // and where the next request will be written to
  // Up to the first that fails: EINVAL, ENOMEM. `posted`: how many were.
  Status post_send(std::span<const SendRequest> requests, std::size_t& posted);
  [[nodiscard]] Status check_send(std::span<const SendRequest> requests) const;  // of all of them, changing nothing
  void start(Psn first);                                                         // RTR -> RTS
  void reset();
  void flush(Instant now);  // to ERR: all completes as kFlushed, in order
  // `source_port`: the UDP port that it came from, so the path that it took.
  // ACK/NAK, READ responses, atomic acknowledgements.
  Outcome handle_response(const wire::Packet& packet, std::uint16_t source_port, Instant now);
  Outcome handle_bitmap_ack(const wire::BitmapAck& ack, std::uint16_t source_port, Instant now);
  Outcome handle_ffm(const wire::Ffm& ffm, Instant now);
  Outcome handle_edn(const wire::Edn& edn, Instant now);
  Outcome handle_timeout(Instant now);
  void follow_irn(const IrnTimeouts& timeouts);  // a yardstick, of RecoveryMode::kSelective; after start()
  void recovery_changed();                       // Identity::recovery is another, or says something else
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  // What output found out by itself (memory that is gone, a completion queue that is full) and only the queue pair may
  // act on. Asked after poll_requests().
  Outcome take_outcome(Instant now);

  // Retransmissions first, then new packets, within window, credit and congestion window. True: at least one was added.
  bool poll_requests(TransmitBatch& batch, Instant now);
  [[nodiscard]] bool has_output(Instant now) const;
  void withdraw(Instant made, Instant now);  // QueuePair::withdraw
  // --- pace.cc ---
  [[nodiscard]] congestion::RateControl* rate() const;  // null: none is kept
  [[nodiscard]] Pace pace() const;                      // all that bounds it by time
  // After output, where there is a rate: `more` there is, if the rate allowed it.
  void note_paced(bool more, Instant now);
  [[nodiscard]] std::optional<Instant> paced_until() const;  // something waits for its rate until then
  void end_pace_wait(Instant now);                           // a timer fired
  [[nodiscard]] bool has_unpaced_output(Instant now) const;  // has_output(), whatever the rate
  void handle_cnp(Instant now);                              // the peer has received marked packets of ours
  void bitmap_agreed(Instant now);                           // the identity says so
  void note_marked(Instant now);                             // we have, of the peer's
  [[nodiscard]] bool cnp_due() const;
  bool poll_cnp(TransmitBatch& batch);
  void note_responses_dropped(std::uint64_t bytes, Instant now);  // by a full queue: they may leave at this rate, too

  // --- link_state.cc ---
  [[nodiscard]] bool inquiry_due(Instant now) const;
  bool poll_inquiry(TransmitBatch& batch, Instant now);
  void handle_link_state(const wire::LinkStateFeedback& feedback);
  void set_managed(congestion::ManagedDestination* destination);  // of its peer; null: none
  [[nodiscard]] congestion::ManagedDestination* managed() const;
  [[nodiscard]] Bandwidth delivered() const;  // of late; 0: nothing is known

  // --- stopped_peer.cc ---
  [[nodiscard]] bool stopped_query_due() const;               // and the silence that it is about lasts
  [[nodiscard]] bool has_stopped_query() const;               // was due, whether it lasts or not
  void forget_stopped_query();                                // precondition: there is one
  [[nodiscard]] std::uint64_t stopped_queries() const;        // likewise: that left in this silence
  void add_stopped_query(TransmitBatch& batch, Instant now);  // precondition: it is due
  void handle_stopped_reply(const wire::StoppedReply& reply, Instant now);

  [[nodiscard]] bool all_complete() const;   // that was posted
  [[nodiscard]] bool ends_soon() const;      // a few batches hold what has not left yet of all that was posted
  [[nodiscard]] bool next_is_large() const;  // what would leave next is of a large command (large_transfer.cc)
  // Where there are several paths (Identity::sending_paths): which one the next batch of requests takes; the one for
  // what is to arrive in order, another once `unheard` counts on; and what a batch there has in common with the last.
  [[nodiscard]] std::uint8_t next_path(Instant now);
  [[nodiscard]] std::uint8_t control_path(std::uint32_t unheard);
  [[nodiscard]] wire::AddressedIcrcFlow& flow(std::uint8_t path);
  [[nodiscard]] std::span<const recovery::PathFacts> path_facts() const;
  [[nodiscard]] std::size_t path_count() const;  // 1: no statistics are kept of it
  [[nodiscard]] PathStatus path_status(std::size_t path) const;
  // Nothing is posted, under way or waited for: no output and no deadline until something comes (idle.cc).
  [[nodiscard]] bool is_idle() const;
  [[nodiscard]] bool idle() const;  // no work request outstanding (SQ drained)

  // How it stands, for whoever asks (resource show, tests).
  struct Snapshot {
    Psn base, next;                          // oldest PSN not done, first never sent
    std::size_t operations = 0;              // of large commands, under way
    std::uint32_t unacked = 0, pending = 0;  // entries of the send window; of those, to be sent again
    std::size_t messages = 0;                // begun, not done
    std::uint64_t work_requests = 0;         // posted, not complete
    std::uint32_t flight_packets = 0, responses_messages = 0, responses_packets = 0;
    std::uint64_t flight_bytes = 0, pipe_bytes = 0, responses_bytes = 0, congestion_bytes = 0;
    std::optional<Bandwidth> rate;           // where a rate is kept
    std::optional<Bandwidth> response_rate;  // that answers to READs are asked for at
    Duration srtt, base_rtt;                 // smoothed; the smallest of late
    bool waits_for_receiver = false;         // RNR
    std::uint32_t window = 0;                // longest that the send window may get
    std::uint32_t looked_at = 0;             // what acknowledgements have cost: entries, words of 64 bits; wraps
    bitmap::WindowUse bitmap;
  };
  [[nodiscard]] std::uint32_t packets_in_flight() const;  // sent, not acknowledged; a READ request counts as one
  [[nodiscard]] Snapshot snapshot() const;
  // --- manage_recovery.cc: what an operator sees and asks for ---
  // The gaps among READ responses and results of atomics that have a record, in PSN order; the limits that they are
  // judged by, learnt ones included; the path bitmaps of responses (empty: there are none).
  [[nodiscard]] std::vector<OpenGap> open_gaps(Instant now) const;
  [[nodiscard]] recovery::GapLimits limits(Instant now) const;
  [[nodiscard]] std::vector<PathReceived> receive_paths(Instant now) const;
  // Sends again what of [first, first + count) is not acknowledged and does not wait to be sent again; none: all that
  // is outstanding. READs as a whole. `packets` 0: there is none.
  RetransmitRequested retransmit(std::optional<Psn> first, std::uint32_t count, Instant now);
  // Asks again for the missing responses of the gap of `psn`, or of each (none).
  RetransmitRequested retransmit_gaps(std::optional<Psn> psn, Instant now);
  [[nodiscard]] MemoryUse memory() const;

  struct Impl;
  [[nodiscard]] Impl& impl() const { return impl_.as_it_is(); }  // for files that have it inlined

 private:
  // Whoever asks finds the round trip that was heard last worked in (Environment::round_trip).
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
