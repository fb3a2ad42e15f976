// qp/receive/responder.h - the receiving half of an RC queue pair: takes requests, places data, keeps order, judges
// gaps, acknowledges, serves READs and atomics.
//
// Rules (docs/explanation/engine.md): any order of placement, but the last packet of a message only when everything
// before it is placed; completions in order; nothing applied twice. Early packets that cannot be placed are held
// (bounded). responder_impl.h has its parts, and the way of a request through them: admission (receive_request.cc),
// execution in order (qp/execute), early packets (early_placement.h), gaps (qp/gaps), acknowledgements
// (qp/acknowledge), responses (qp/respond).
//
// Order of calls: start(), then handle_request / handle_timeout / post_receive with a time that never goes back, then
// the three poll functions until none adds anything. handle_... return an Outcome that the queue pair carries out: on
// to_error it calls flush(), and goes on polling poll_responses() for the NAK to the peer.
// A peer's bytes never fail an assertion: they are a counted drop, a NAK, or both.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/transmit_interest.h"
#include "bitmaprdma/types.h"
#include "qp/paths/path_status.h"
#include "qp/queues/transmit_batch.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "qp/state/memory_use.h"
#include "qp/state/open_gap.h"
#include "recovery/gap_judge.h"
#include "recovery/path_spray.h"
#include "wire/edn.h"
#include "wire/packet.h"
#include "wire/single_write.h"

namespace brdma::qp {

class Responder {
 public:
  Responder(Environment& environment, Identity& identity);
  ~Responder();

  void fetch_ahead() const;                            // idle.cc
  Status post_receive(const ReceiveRequest& request);  // EINVAL, ENOMEM
  void receive_posted();                               // to the shared receive queue
  void forget_source(const SharedReceiveQueue* srq);   // it is being destroyed (XRC)
  void start(Psn first);                               // INIT -> RTR
  void reset();                                        // to RESET: all forgotten
  void flush(Instant now);                             // to ERR: receives complete as kFlushed
  // A request (RC or bitmap mode). Its ICRC and peer address have been checked.
  Outcome handle_request(const wire::Packet& packet, Instant now);
  // A switch has dropped responses or acknowledgements of ours (repeated_responses.h); or data of ours, which may have
  // carried an acknowledgement. Returns how many bytes leave again.
  std::uint64_t handle_edn(const wire::Edn& edn, Instant now);
  // In ERR: the refused request, or one behind it, comes again. Its NAK was lost, or is on its way: it leaves once
  // more.
  [[nodiscard]] bool has_refused() const;
  void repeat_refusal(const wire::Packet& packet);
  void withdraw(Instant now);  // QueuePair::withdraw
  void repeat_with_data();
  Outcome handle_timeout(Instant now);  // gap deadlines, delayed acknowledgements
  [[nodiscard]] std::optional<Instant> next_timeout() const;

  // Output, in the order of the queue pair's calls. Each returns true when it added at least one packet; the rest stays
  // for the next call.
  // READ responses, atomic acknowledgements; NAKs between them, or (if not `naks`) up to the first of them.
  bool poll_responses(TransmitBatch& batch, Instant now, bool naks = true);
  bool poll_feedback(TransmitBatch& batch, Instant now);         // FFM
  bool poll_acknowledgement(TransmitBatch& batch, Instant now);  // ACK or BitmapAck, if one is due
  [[nodiscard]] TransmitInterest interest(Instant now) const;
  // Only an acknowledgement, due or not, that has not waited for so many times its delay: it may leave behind data.
  [[nodiscard]] bool may_wait_for_data(int delays, Instant now) const;
  // Output that is sprayed over several paths, and output that must arrive in order: feedback, NAKs.
  [[nodiscard]] bool has_responses() const;
  [[nodiscard]] bool has_ordered_output() const;
  // The path of the next batch of responses; `sending`: facts known of the paths from requests.
  [[nodiscard]] std::uint8_t response_path(std::span<const recovery::PathFacts> sending, Instant now);
  // Signs so far that our acknowledgements are lost: each one changes the path.
  [[nodiscard]] std::uint32_t path_changes() const;
  void change_path();                              // a loss is certain
  [[nodiscard]] bool in_midst_of_message() const;  // of a SEND or WRITE of several packets
  void send_final_acks();                          // repeats the acknowledgement several times
  // Data is leaving for the peer anyway: a delayed acknowledgement becomes due now.
  void acknowledge_now();
  // A due acknowledgement goes into the batch's last data packet if it fits; else poll_acknowledgement() sends it.
  bool piggyback_acknowledgement(TransmitBatch& batch, Instant now);

  // Credit of this side: its share of the socket (stated in CAPS and BitmapAck).
  [[nodiscard]] PeerCredit own_credit() const;

  // Identity::recovery has changed: limits of waiting gaps are applied again.
  void recovery_changed(Instant now);

  // State for management (resource show, tests).
  struct Snapshot {
    Psn next;     // PSN expected next: the base of the receive window
    Psn highest;  // highest PSN received; next - 1 where nothing came early
    std::uint32_t msn = 0;
    std::size_t early_packets = 0, held_bytes = 0;  // received beyond `next`; of those, payload kept in buffers
    std::size_t gaps = 0;
    std::uint64_t gaps_looked_at = 0;  // since all was in order: cost of finding the packets to request
    recovery::GapLimits limits;        // in force now, learnt ones included
    std::uint32_t window = 0;          // maximum length
    bitmap::WindowUse bitmap;          // of the receive window
    std::size_t state_bytes = 0;       // bitmap and records: of early packets (their payload apart), of gaps
    std::size_t operations = 0;        // of large transfers, registered and not executed
    std::size_t escaped = 0;           // packets in the escape channel
    std::size_t responses = 0;         // READs, atomics and NAKs that have not left yet
    std::size_t receives = 0;
  };
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] MemoryUse memory() const;
  // The gaps between `next` and `highest` that have a record, in PSN order.
  [[nodiscard]] std::vector<OpenGap> open_gaps(Instant now) const;
  [[nodiscard]] recovery::GapLimits limits(Instant now) const;               // at `now`, learnt ones included
  [[nodiscard]] std::vector<PathReceived> receive_paths(Instant now) const;  // of requests; empty: no path bitmaps
  // An operator declares the gap of `psn`, or each (none), lost: named in feedback at once. To a standard peer only the
  // gap at the base can be named. Returns the named gaps as they stood; `packets` 0: no such gap.
  RetransmitRequested retransmit_gaps(std::optional<Psn> psn, Instant now);

  struct Impl;
  [[nodiscard]] Impl& impl() const { return *impl_; }  // for files that inline it

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace brdma::qp
