// tests/support/sender_parts.h - the parts of a requester, without it: for unit tests of the views of them
// (libbitmaprdma/qp/{loss,timers,paths,read,send,inquiry}). Real parts, wired as in a Requester.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "qp/inquiry/link_inquiries.h"
#include "qp/loss/reported_arrivals.h"
#include "qp/loss/reported_losses.h"
#include "qp/loss/sent_packets.h"
#include "qp/paths/path_evidence.h"
#include "qp/queues/send_queue.h"
#include "qp/queues/work_completer.h"
#include "qp/read/response_gaps.h"
#include "qp/read/response_pacing.h"
#include "qp/send/admission.h"
#include "qp/send/local_references.h"
#include "qp/send/message_start.h"
#include "qp/send/sending_rate.h"
#include "qp/timers/deadlines.h"
#include "qp/timers/progress.h"
#include "qp/timers/timer_actions.h"

namespace brdma::test {

// Bitmap mode, an MTU of 1024, first PSN 1000, first sequence 0, 16 s after the clock's start.
struct SenderParts {
  static constexpr std::uint32_t kMtu = 1024;

  SenderParts() {
    identity.recovery = &recovery;
    identity.state = QpState::kRts;
    identity.qpn = 17;
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.attributes.timeout = 14;
    identity.attributes.retry_count = 7;
    identity.attributes.max_rd_atomic = 16;
    identity.bitmap_agreed = true;
    identity.peer_credit = {10'000, 1u << 30};
    identity.peer_window = 10'000;
    scoreboard.begin_from(Psn{1000});
  }
  ~SenderParts() { loss.end(environment.loss_recovery); }
  SenderParts(const SenderParts&) = delete;
  SenderParts& operator=(const SenderParts&) = delete;

  // --- what a requester does to its parts ---
  // A WRITE of full packets leaves. Returns its first sequence.
  qp::Sequence write(std::uint32_t packets, std::uint8_t path = 0) {
    const qp::Sequence first = begin(packets, packets * kMtu, qp::MessageKind::kWrite);
    if (packets_in_flight() == 0) timers.on_flight_begun(now);
    for (std::uint32_t i = 0; i < packets; ++i) {
      scoreboard.sent(kMtu, path, now);
      if (paths) paths->sent(path, now);
      sent().note_left(first + i, now);
    }
    timers.on_new_data();
    timers.on_activity(now);
    return first;
  }
  // A READ request with so many responses leaves.
  qp::Sequence read(std::uint32_t responses_of_it, std::uint8_t path = 0) {
    const qp::Sequence first = begin(responses_of_it, responses_of_it * kMtu, qp::MessageKind::kRead);
    if (packets_in_flight() == 0) timers.on_flight_begun(now);
    messages.back().in_flight_counted = true;
    timers.on_new_data();
    responses.on_requested(responses_of_it, responses_of_it * kMtu);
    scoreboard.sent_request(responses_of_it, path, now);
    if (paths) paths->request_sent(path, now);
    timers.on_activity(now);
    return first;
  }
  // It is pending: it leaves.
  void leaves_again(qp::Sequence sequence, std::uint8_t path = 0) {
    const qp::Message& message = sent().message_of(sequence);
    sent().left_again(sequence, message.answered() ? 0 : message.payload_at(sequence, kMtu), path, now);
  }
  void acknowledge(qp::Sequence sequence) { sent().acknowledge(sequence, sent().message_of(sequence), now); }
  // The peer reports `sequence`, which lies beyond the base.
  void report(qp::Sequence sequence) {
    scoreboard.note_reported(sequence);
    acknowledge(sequence);
    scoreboard.note_arrived(sequence + 1);
  }
  void pass(Duration time) { now = now + time; }

  [[nodiscard]] std::uint64_t count(Counter counter) const { return statistics.get(counter); }
  [[nodiscard]] bool pending(qp::Sequence sequence) const {
    return scoreboard.state(sequence) == bitmap::EntryState::kRetransmitPending;
  }
  [[nodiscard]] std::vector<qp::Sequence> all_pending() const {
    std::vector<qp::Sequence> all;
    for (qp::Sequence at = scoreboard.base(); at < scoreboard.next(); ++at)
      if (pending(at)) all.push_back(at);
    return all;
  }
  [[nodiscard]] std::uint32_t packets_in_flight() const { return scoreboard.flight().packets; }

  // --- views ---
  [[nodiscard]] qp::SentPackets sent() {
    return qp::SentPackets{
        {environment, identity, scoreboard, messages, segments, congestion, responses, loss, paths.get(), judge.get()}};
  }
  [[nodiscard]] qp::ReportedArrivals arrivals() {
    return qp::ReportedArrivals{{environment, identity, scoreboard, segments, congestion, loss, paths.get(),
                                 judge != nullptr, sent(), progress(), inquiries(), lengths()}};
  }
  [[nodiscard]] qp::ReportedLosses losses() {
    return qp::ReportedLosses{
        {environment, identity, scoreboard, rtt, congestion, timers, rnr, order, signals.get(), paths.get(), sent()}};
  }
  [[nodiscard]] qp::ResponseGaps gaps() {
    return qp::ResponseGaps{{environment, identity, scoreboard, messages, rtt, responses, receiver, loss}};
  }
  [[nodiscard]] qp::TimerLengths lengths() const {
    return qp::TimerLengths{{identity, scoreboard, rtt, congestion, responses, timers, judge.get()}};
  }
  [[nodiscard]] qp::Deadlines deadlines() const {
    return qp::Deadlines{{identity, scoreboard, messages, rtt, timers, rnr, admission, congestion, responses, loss,
                          signals, judge.get()}};
  }
  [[nodiscard]] qp::Progress progress() { return {environment, identity, scoreboard, timers}; }
  [[nodiscard]] qp::TimerActions actions() {
    return qp::TimerActions{{environment, identity, scoreboard, timers, rnr, congestion, responses, receiver,
                             paths.get(), sent(), gaps(), inquiries(), lengths()}};
  }
  [[nodiscard]] qp::LinkInquiries inquiries() { return {environment, identity, signals}; }
  [[nodiscard]] qp::LocalReferences references() {
    return qp::LocalReferences{{environment, identity, queue, next.cut}};
  }
  [[nodiscard]] qp::SendingRate rate() {
    return qp::SendingRate{{environment, identity, rtt, congestion, responses.congestion(), signals}};
  }
  // Precondition: signals->responses.
  [[nodiscard]] qp::ResponsePacing pacing() {
    return qp::ResponsePacing{{environment, identity, rtt, responses.congestion(), *signals->responses}};
  }
  // Precondition: paths.
  [[nodiscard]] qp::PathEvidence evidence() {
    return qp::PathEvidence{
        {environment, identity, scoreboard, congestion, responses.congestion(), *paths, sent(), lengths()}};
  }

  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  qp::Environment environment{.config = config, .memory = memory, .statistics = statistics};
  RecoveryConfig recovery;
  qp::Identity identity;
  qp::SendQueue queue{QpCapabilities{}};
  qp::SendFault fault;
  qp::MessageTable messages;
  qp::Scoreboard scoreboard{qp::window_shape(recovery), environment.segments};
  qp::Segments segments;
  qp::PooledLossRecovery loss;
  recovery::RttEstimator rtt;
  congestion::DelayWindow congestion;
  qp::Admission admission;
  qp::ResponseAdmission responses;
  qp::ResponseReceiver receiver;
  qp::NextMessage next;
  qp::RetransmissionTimers timers;
  qp::ReceiverNotReady rnr;
  recovery::FeedbackOrder order;
  std::unique_ptr<qp::SenderJudge> judge;
  std::unique_ptr<qp::CongestionState> signals;
  std::unique_ptr<qp::SendPaths> paths;
  Instant now = Instant{} + 16_s;

 private:
  qp::Sequence begin(std::uint32_t packets, std::uint32_t bytes, qp::MessageKind kind) {
    messages.push_back({.first = scoreboard.next(), .packets = packets, .length = bytes, .kind = kind});
    return messages.back().first;
  }
};

}  // namespace brdma::test
