"""The mutations: a name, the file below libbitmaprdma/, texts (each once in the file) and their replacements.

A mutation that does not find its text any more must be updated, not removed: `tests/mutation/run --check` checks that.
"""

from fast_paths import FAST_PATHS

MUTATIONS = [
    # --- order, exactly once ---
    ("a message's last packet is placed as soon as it comes", "qp/receive/early_placement.cc", {
        "if (packet.bitmap && !wire::is_last_or_only(packet.op) && !packet.bxth.by_reference()) {": "if (packet.bitmap && !packet.bxth.by_reference()) {",
        "if (offset + size >= packet.reth.length)": "if (offset + size > packet.reth.length)",
    }),
    ("a packet that is here is taken for a new one", "bitmap/receive_window.h", {
        "return has(psn) ? Arrival::kDuplicate : Arrival::kNew;": "return Arrival::kNew;",
    }),
    ("what has arrived counts as executed", "qp/loss/scoreboard.cc", {
        "pass_acknowledged(cumulative_)": "pass_acknowledged(next())",
    }),
    ("a retransmission reads the packet's neighbour", "qp/loss/retransmissions.cc", {
        "cursor.seek(parts_.queue, message.wqe, message.offset + static_cast<std::uint32_t>(sequence - message.first) * mtu);":
            "cursor.seek(parts_.queue, message.wqe, message.offset + static_cast<std::uint32_t>(sequence - message.first + (message.packets > sequence - message.first + 1)) * mtu);",
    }),
    ("a repeated atomic finds another's result", "qp/respond/responder_resources.cc", {
        "if ((*atomics_)[i].psn == psn) return": "if ((*atomics_)[i].psn == psn || true) return",
    }),
    ("sequence numbers do not wrap", "base/psn.h", {
        "const std::uint32_t d = (psn.value() - base.value()) & Psn::kMask;":
            "const std::uint32_t d = psn.value() < base.value() && base.value() > 0xFF'0000 ? 0xFF'FFFF : (psn.value() - base.value()) & Psn::kMask;",
    }),
    ("a packet with a wrong ICRC is taken", "device/receive.cc", {
        "    return drop(datagram, DropReason::kBadIcrc);\n  }\n  qp->handle_packet": "  }\n  qp->handle_packet",
    }),
    # --- judgement and repair ---
    ("a duplicate before the base is not acknowledged", "qp/receive/duplicate_requests.cc", {
        "  parts_.acknowledgements.schedule.on_copy(now);  // of a WRITE or SEND\n": "",
    }),
    ("gaps never grow old", "recovery/gap_judge.cc", {
        "if (now >= too_old) return Lost{LossCause::kAge};":
            "if (now >= too_old + 10_s) return Lost{LossCause::kAge};",
    }),
    ("the depth limit is one packet too small", "recovery/gap_judge.cc", {
        "if (gap.depth > limits.depth_max)": "if (gap.depth >= limits.depth_max)",
    }),
    ("feedback is not followed", "recovery/retransmit_request.cc", {
        "  return RequestVerdict::kResend;": "  return RequestVerdict::kRecent;",
    }),
    ("what a receiver that was not ready threw away is not sent again", "qp/loss/handle_ack.cc", {
        "reported_arrivals(me).take_back(ack, base, now);": "",
    }),
    ("no probe, no timeout", "qp/timers/deadlines.cc", {
        "if (!id.bitmap_agreed && id.attributes.timeout == 0) return std::nullopt;":
            "if (id.bitmap_agreed || id.attributes.timeout == 0) return std::nullopt;",
    }),
    ("a stall fires again though nothing was acknowledged", "qp/timers/deadlines.cc", {
        "parts_.judge != nullptr || !parts_.timers.acknowledged_since_stall()": "parts_.judge != nullptr",
    }),
    ("a stall begins when its gap is seen", "recovery/gap_judge.h", {
        "return std::max(base_moved, first_seen - before_max);": "return std::max(base_moved, first_seen);",
    }),
    ("a spurious timeout lowers the congestion window", "qp/timers/timer_actions.cc", {
        "  if (lost * 2 <= timeouts->packets) return;\n": "",
    }),
    ("a silent peer is never given up", "qp/timers/deadlines.cc", {
        "  return from + lengths().retries();": "  return std::nullopt;",
    }),
    ("an error flushes the receives no more", "qp/state/state_machine.cc", {
        ": pair_.responder_.flush(now);": ": void();",
    }),
    # --- limits ---
    ("the peer's credit is not looked at", "qp/send/admission.h", {
        "std::int64_t{id.peer_credit.packets} - flight.packets,": "std::int64_t{id.peer_credit.packets} + 4096 - flight.packets,",
    }),
    ("the peer's window is not looked at", "qp/send/admission.h", {
        "return {std::min(room, id.peer_window - ahead),": "return {room + 0 * ahead,",
    }),
    ("a probe for credit lets all packets behind it leave", "qp/send/admission.h", {
        "credit_stalled_ = credit_override_ = false;": "credit_stalled_ = false;",
    }),
    ("what was reported in a range is acknowledged again", "qp/loss/scoreboard.h", {
        "unacked() == entries() && ": "",
    }),
    ("a packet judged lost stays in the congestion window", "qp/loss/scoreboard.cc", {
        "  if (before == EntryState::kRetransmittedUnacked) --retransmitted_;\n  flight_.pipe -= payload;": "  if (before == EntryState::kRetransmittedUnacked) --retransmitted_;\n  (void)payload;",
    }),
    # --- granularity and slide step ---
    ("a bit for several packets is set by the first of them", "bitmap/arrival_bits.cc", {
        "if ((arrived | done) == whole_run()) {": "if ((arrived | done) != 0) {",
    }),
    # --- paths ---
    ("another path's packet counts as progress of the gap's own", "qp/paths/paths_receive.cc", {
        "if (gap.path_known) return has_passed(paths_[gap.path], last);":
            "if (gap.path_known) return std::any_of(paths_.begin(), paths_.end(), [&](const Path& path) { return has_passed(path, last); });",
    }),
    ("where the path of a gap is not known, one path that has passed is enough", "qp/paths/paths_receive.cc", {
        "return std::all_of(paths_.begin(), paths_.end(),":
            "return std::any_of(paths_.begin(), paths_.end(),",
    }),
    ("a packet names the wrong run before it on its path", "qp/paths/path_trail.h", {
        "before.distance = static_cast<std::uint16_t>(away);":
            "before.distance = static_cast<std::uint16_t>(away + 1);",
    }),
    ("a silent path stays in use", "qp/paths/paths_send.cc", {
        "if (!path.in_use || !path.silent_since) continue;": "continue;",
    }),
    # --- large transfers ---
    ("an operation begins with two packets marked as here", "registry/mask.h", {
        "words_[0] |= Word{1};": "words_[0] |= Word{3};",
    }),
    ("what escaped does not find its operation", "qp/receive/operation_receiver.cc", {
        "if (!parts_.operations.escape_->empty()) release(start.number, now);": "",
    }),
    ("large commands go first", "registry/command_queues.h", {
        "if (regular_.first == nullptr) return large_.first;":
            "if (large_.first != nullptr) return large_.first;",
    }),
    # --- who may do what ---
    ("a packet's token is not compared", "qp/state/reception.h", {
        "return bxth.token == id.own_token && bxth": "return bxth",
        "return wire::token_of(packet) == id.own_token && wire::source_qpn_of(packet)":
            "return wire::source_qpn_of(packet)",
    }),
    ("a packet's source queue pair is not compared", "qp/state/reception.h", {
        " && bxth.source_qpn == id.attributes.destination_qpn": "",
        " && wire::source_qpn_of(packet) == id.attributes.destination_qpn;": ";",
    }),
    ("a plain acknowledgement's token is not compared", "qp/loss/ack_fast_path.cc", {
        "ack.token != identity_.own_token || ": "",
    }),
    ("standard packets are taken for ever", "qp/negotiate/negotiator.cc", {
        "if (now < me_.id.standard_until) return false;": "return false;",
    }),
    ("standard packets of any PSN in the window are taken", "qp/state/reception.cc", {
        "beyond = pair_.identity_.bitmap_agreed &&": "beyond = false &&",
    }),
    ("CAPS are believed of anybody", "qp/negotiate/negotiator.cc", {
        "const bool proven = caps.echo == me_.id.own_token;": "const bool proven = true;",
    }),
    ("an acknowledgement may be ahead of what was sent", "qp/loss/handle_ack.cc", {
        "return base > board.next() || (ack": "return (ack",
    }),
    ("any protection domain will do", "memory/memory_table.cc", {
        "if (region->pd != who.pd) return Fault::kWrongDomain;": "",
    }),
    ("a region's access is not looked at", "memory/memory_table.cc", {
        "if ((region->access & needed) != needed) return Fault::kNoPermission;": "",
    }),
    # --- large transfers, congestion ---
    ("what waits for the start of its operation is reported as lost", "qp/acknowledge/acknowledgement_writer.cc", {
        "const Psn end = parts_.operations.before_escaped(last.start + last.length);": "const Psn end = last.start + last.length;",
    }),
    ("tail drops are taken for random loss", "congestion/window/queue_loss.cc", {
        "if (at_.lost < kConfig.least_lost * packet_bytes) return false;": "if (at_.lost < packet_bytes * 1'000'000) return false;",
    }),
    ("any three losses are tail drops", "congestion/window/queue_loss.cc", {
        "  if (at_.lost <= by_chance) return false;": "  return true;",
    }),
    ("random loss is never found out", "congestion/delay_window.cc", {
        "if (full_.was_random_loss(sample(), losses_.verdict.is_capped(queueing() * 3 / 4))) return undo_cut();": "",
    }),
    ("below a queue that was full the window grows at once", "congestion/window/full_queue.cc", {
        "return is_known() ? std::min(next, most_) : next;": "return next;",
    }),
    ("what was learnt of a queue is believed of another way", "congestion/delay_window.cc", {
        "      forget_queue();\n": "",
    }),
    ("READ responses that a full queue dropped do not lower what is requested", "qp/loss/sent_packets.cc", {
        "    parts_.responses.congestion().on_loss(payload, mtu, now);\n": "",
    }),
    # --- one receiver's rules for gaps, RNR ---
    ("a retransmission teaches as if it had been late", "qp/gaps/gap_receiver.cc", {
        "if (arrival.learns && arrival.copy == Copy::kOriginal) learn(arrival, filled);": "if (arrival.learns) learn(arrival, filled);",
    }),
    ("a gap behind the first one stalls too", "qp/gaps/gap_receiver.cc", {
        "  if (!is_at_base(gap.start)) return std::nullopt;\n": "",
    }),
    ("evidence of a gap's own path is not used", "qp/gaps/gap_receiver.cc", {
        ".same_path_passed = gap.path_passed,": ".same_path_passed = false,",
    }),
    ("an original counts as the answer to an FFM", "qp/gaps/request_gaps.cc", {
        "packet.bxth.retransmitted ? gaps.covering(psn) : nullptr;": "gaps.covering(psn);",
    }),
    ("a standard peer is sent back while it sends everything again", "qp/gaps/request_gaps.cc", {
        "    if (state.go_back.repeats == 0) return;\n": "",
    }),
    ("a gap is named while the sender waits for the RNR timer", "qp/gaps/feedback_sender.cc", {
        "if (gaps.empty() || parts_.base_packet.is_refused()) {": "if (gaps.empty()) {",
    }),
    ("an FFM is repeated before its packet can be here", "qp/gaps/gap_feedback.cc", {
        "  if (trip > kRepeatMax) return trip + trip / 4;\n": "  if (trip > Duration{}) return trip / 2;\n",
    }),
    ("READ responses are requested again however recent the last request is", "qp/read/response_gaps.cc", {
        "entry.transmissions > 1, since_sent}, quiet(), false)": "false, since_sent}, quiet(), false)",
    }),
    ("all packets leave at once after an RNR NAK", "qp/timers/receiver_not_ready.h", {
        "return !is_recovering() || sequence < end_;": "return !is_recovering() || sequence < end_ + 1000;",
    }),
    ("refusals are counted over packets that were executed", "qp/timers/receiver_not_ready.h", {
        "    if (is_recovering() && cumulative >= end_) widen(cumulative);\n    refusals_ = 0;": "    if (is_recovering() && cumulative >= end_) widen(cumulative);",
    }),
    ("on a path of milliseconds a whole window leaves at once", "qp/send/sending_rate.h", {
        "static constexpr Duration kBoundBurstsFrom = 1_ms;": "static constexpr Duration kBoundBurstsFrom = 10_s;",
    }),
    # --- owners of the transport core ---
    ("a response of an unknown request decides what a timeout was", "qp/read/handle_response.cc", {
        "if (me.timers.has_undecided() && request.once) [[unlikely]]": "if (me.timers.has_undecided()) [[unlikely]]",
    }),
    ("a repeated sequence NAK goes back at once", "qp/loss/refusals.cc", {
        "if (repeated && since <": "if (false && repeated && since <",
    }),
    ("a READ response of any length is placed", "qp/read/response_placement.cc", {
        "if (packet.payload.size() != expected || packet": "if (packet",
    }),
    ("a timeout counts as a sign of a full queue", "qp/loss/sent_packets.cc", {
        "cause == Counter::kRetransmittedFfm || cause == Counter::kRetransmittedAck;": "true;",
    }),
    ("a response's loss counts as its request's", "qp/loss/sent_packets.cc", {
        "} else if (!message.request_received) {": "} else if (true) {",
    }),
    ("a retransmission teaches how far packets overtake", "qp/loss/sent_packets.cc", {
        "if (sequence < board.arrived_end() && entry.transmissions == 1) [[unlikely]]": "if (sequence < board.arrived_end())",
    }),
    ("feedback repeats a retransmission that it cannot know of", "qp/loss/reported_losses.cc", {
        "if (feedback.highest && again &&": "if (false && feedback.highest && again &&",
    }),
    ("a drop without a full queue reduces the window", "qp/loss/reported_losses.cc", {
        "  if (edn.drain > Duration{}) slow_down(": "  slow_down(",
    }),
    ("feedback for a request that has arrived repeats it", "qp/loss/reported_losses.cc", {
        "    } else if (!message.request_received) {\n": "    } else {\n",
    }),
    ("a hole is retransmitted by the first late acknowledgement", "qp/loss/reported_arrivals.cc", {
        "const bool old = (echo ? echo->sent : now) >= sent + age;": "const bool old = now >= sent + age;",
    }),
    ("the receiver's judgement repeats what left since", "qp/loss/reported_arrivals.cc", {
        "{entry.state, entry.transmissions > 1, {}}, {}, true)": "{entry.state, false, {}}, {}, true)",
    }),
    ("repeated bits count as progress", "qp/loss/reported_arrivals.cc", {
        "std::uint64_t news = bits & ~board.reported(from + at)": "std::uint64_t news = bits",
        "  if (parts_.scoreboard.is_acked(sequence)) return false;\n": "  if (parts_.scoreboard.is_acked(sequence)) return true;\n",
    }),
    ("a pause reaches the next queue pair that loses a packet", "qp/loss/loss_recovery.h", {
        "    paused_until.reset();\n    response_tolerance": "    response_tolerance",
    }),
    ("a READ response overtaken twice by its re-request's successors is not missed", "qp/read/response_gaps.cc", {
        "if (promoted ? sent <= gap.last_feedback :": "if (promoted ? true :",
    }),
    ("READ re-requests never slow down", "qp/read/response_gaps.cc", {
        "i < times && interval < kRerequestMax": "i < times && false",
    }),
    ("the RTO does not back off", "qp/timers/timer_lengths.h", {
        "if (parts_.timers.backoff() == 0) return first;": "if (parts_.timers.backoff() < 100) return first;",
    }),
    ("an acknowledgement waits for more packets than it may", "qp/acknowledge/acknowledgement_schedule.h", {
        "packets_ >= packets_max || now": "packets_ > packets_max || now",
    }),
    ("the last acknowledgement leaves once", "qp/acknowledge/acknowledgement_schedule.h", {
        "    --copies_;\n    pending_ = forced_ = true;": "    --copies_;",
    }),
    ("an echo is sent twice", "qp/acknowledge/acknowledgement_schedule.h", {
        "void on_sent() { valid_ = false; }": "void on_sent() {}",
    }),
    ("a packet without a receive is refused for ever", "qp/receive/base_packet.h", {
        "void advance() { named_ = refused_ = false; }": "void advance() { named_ = false; }",
    }),
    ("an early SEND takes receives from a shared queue that others need", "qp/execute/request_checks.h", {
        "    if (index >= parts_.receives.size() && static_cast<std::int64_t>(index) > ahead(packet)) return std::nullopt;\n": "",
    }),
    ("a READ may take PSNs of requests that are here", "qp/execute/request_checks.cc", {
        "if (window.has(psn + i)) return true;": "if (window.has(psn + i)) return false;",
    }),
    ("what waits for the start of its operation is acknowledged", "qp/receive/operation_receiver.cc", {
        "    bits[bit / 8] &= static_cast<std::byte>(~(0x80u >> (bit % 8)));\n": "    (void)bits;\n",
    }),
    ("the newest packet is dropped too when its operation's start does not come", "qp/receive/operation_receiver.cc", {
        "packet.psn == parts_.window.highest() || ": "",
    }),
    ("anybody's reference to memory is followed", "qp/execute/fetch_local.cc", {
        "  if (reference && reference->key != identity.local->peer_key()) return std::nullopt;\n": "",
    }),
    ("data by reference is written over that of later packets", "qp/execute/fetch_local.cc", {
        "    return uncovered(packet.bth.psn, *reference, to);": "    (void)packet;",
    }),
    ("a READ's response leaves again though its right is gone", "qp/respond/repeated_responses.cc", {
        "if (answered->is_read && (parts_": "if (!answered->is_read && (parts_",
    }),
    ("a report of an acknowledgement that was never sent is believed", "qp/respond/repeated_responses.cc", {
        "!parts_.established || beyond > 0 ||": "!parts_.established || beyond > 1000 ||",
    }),
    ("a READ re-request reaches responses of requests that have not come", "qp/respond/replayed_responses.cc", {
        "distance(parts_.base, psn)) < count) return": "distance(parts_.base, psn)) < 1) return",
    }),
    ("what left again after a report leaves for the re-request too", "qp/respond/replayed_responses.cc", {
        "if (parts_.repeated.have_just_left(": "if (false && parts_.repeated.have_just_left(",
    }),
    ("a NAK leaves though its packet has come", "qp/respond/response_sender.cc", {
        "if (!parts_.halted && response.psn != parts_.base)": "if (false && response.psn != parts_.base)",
    }),
    ("a READ's memory that is unmapped is sent", "qp/respond/response_sender.cc", {
        "env.memory.holds(data, size);": "true;",
    }),
    ("READ responses leave again in runs, and nobody notes it", "qp/respond/serve_read_middle.cc", {
        "if (!response.bitmap || response.replay ||": "if (!response.bitmap ||",
    }),
    ("a response sent again may take the path that lost it", "qp/paths/spray_responses.cc", {
        "first.replay ? std::optional": "first.started ? std::optional",
    }),
    ("an acknowledgement of segments that have not left is believed", "qp/send/segments.cc", {
        "return newest.end() > next && is_named(ack, newest.number);": "return false;",
    }),
    # --- who wants to send ---
    ("an acknowledgement may wait for data for ever", "qp/acknowledge/acknowledgement_times.h", {
        "return deferrable(1, now) ? TransmitInterest::kDeferrable : TransmitInterest::kForced;":
            "return TransmitInterest::kDeferrable;",
    }),
    ("a retransmission counts as new data", "qp/send/requester_impl.h", {
        "return scoreboard.pending() > 0 || losses.recovery ? TransmitInterest::kRetransmission : TransmitInterest::kNewData;":
            "return TransmitInterest::kNewData;",
    }),
    ("what is left of a queue pair that has ended does not want to leave", "qp/state/interest.cc", {
        "if (pair_.identity_.state == QpState::kErr) return responder.interest(now);":
            "if (pair_.identity_.state == QpState::kErr) return TransmitInterest::kNone;",
    }),
    ("nothing follows a batch of UC or UD", "device/transmit.cc", {
        "out.more = qp != nullptr || me.schedule.given_out() != nullptr;": "out.more = qp != nullptr;",
    }),
    # --- output that waits, polls that last ---
    ("a rest of posts waits beside output of another queue pair", "io/poll/send_scheduler.cc", {
        " && interest.only == posts_.from()": "",
    }),
    ("more than an acknowledgement is held for the reply", "io/poll/send_scheduler.cc", {
        "if (deferrable && may_hold": "if (may_hold",
    }),
    ("an acknowledgement is held though its queue pair may go", "io/poll/send_scheduler.h", {
        "occasion != Occasion::kLeave && (occasion": "(occasion",
    }),
    ("posts are gathered of a program that may not call again", "io/poll/driver.h", {
        "return thread == ThreadState::kParked && !sleeps;": "return !sleeps;",
    }),
    ("a poll stays longer than it may", "io/poll/poll_policy.h", {
        "now - began_ < stay_max_ && ": "",
    }),
    ("a poll stays though its program comes back by itself", "io/poll/poll_policy.h", {
        "    score_ = std::min(score_, kScoreToStay);\n    add(-2);\n": "",
    }),
    ("a poll looks again though a deadline comes", "io/poll/poll_policy.h", {
        " && (!deadline || *deadline - now > kLooksLast)": "",
    }),
    # --- one request, a run of small ones ---
    ("a lone request leaves in front of the rest of the one before", "qp/transmit/single_request.h", {
        "parts_.next.cut == 0 && ": "",
    }),
    ("a lone request does not wait for the receiver that was not ready", "qp/transmit/single_request.h", {
        "!runs.rnr().waiting() && ": "",
    }),
    ("packets leave in runs while some are missing", "qp/transmit/runs.h", {
        " && !parts_.scoreboard.has_holes()": "",
    }),
    ("a request with a fence leaves in a run", "qp/transmit/runs.h", {
        " && (wqe.flags & kSendFence) == 0": "",
    }),
    ("a run does not start the timeout", "qp/transmit/runs.h", {
        "    if (parts_.scoreboard.empty()) parts_.timers.on_flight_begun(now);\n": "",
    }),
    ("a READ request does not restart the interval of acknowledgements", "qp/transmit/request_packets.h", {
        "  parts_.admission.on_asked();\n": "",
    }),
    ("a retransmission that must ask does not restart it", "qp/send/ack_requests.h", {
        "parts_.admission.on_added(1, asks);": "parts_.admission.on_added(1, asks && !must);",
    }),
    ("the peer's process is asked about for ever", "qp/send/requester_impl.h", {
        "std::exchange(next.wants_local, false)": "next.wants_local",
    }),
    # --- execution ---
    ("an early SEND is believed where it says that it belongs", "qp/execute/request_execution.h", {
        "if (placed && (packet.bxth.rsn != messages.rsn() || packet.bxth.packet_index != messages.packets())) {": "if (false) {",
    }),
    ("a SEND may be a byte longer than its receive", "qp/execute/request_execution.h", {
        "if (bytes > receives[0].bytes) {": "if (bytes > receives[0].bytes + 1) {",
    }),
    ("a WRITE's later packet may be for elsewhere", "qp/execute/request_execution.h", {
        "return packet.bitmap && !messages.is_next_of_write(packet.reth) ? Verdict::kInvalidRequest : Verdict::kDone;":
            "return Verdict::kDone;",
    }),
    ("a WRITE may bring less than it says", "qp/execute/request_execution.h", {
        "if (packet.payload.size() != packet.reth.length) return": "if (packet.payload.size() > packet.reth.length) return",
    }),
    ("a WRITE of one packet inside another message is taken", "qp/execute/request_execution.h", {
        "if (parts_.messages.in_progress() || packet.payload.size() > parts_.mtu)": "if (packet.payload.size() > parts_.mtu)",
    }),
    # --- acknowledgements, requests for lost packets ---
    ("each packet puts the acknowledgement off", "qp/acknowledge/acknowledgement_schedule.h", {
        "if (!pending_ || asked) since_ = now;": "since_ = now;",
    }),
    ("data does not repeat an acknowledgement that left alone", "qp/acknowledge/acknowledgement_schedule.h", {
        "void on_sent_alone() { repeats_ = kRepeats; }": "void on_sent_alone() { repeats_ = 0; }",
    }),
    ("a timestamp is echoed twice", "qp/acknowledge/acknowledgement_writer.h", {
        "  parts_.acknowledgements.echo.on_sent();\n  parts_.acknowledgements.schedule.on_sent_with_data();":
            "  parts_.acknowledgements.schedule.on_sent_with_data();",
    }),
    ("a standard ACK overtakes a READ's responses", "qp/acknowledge/acknowledgement_writer.h", {
        "  if (!bitmap && responses_wait) return false;\n": "",
    }),
    ("a silent peer is asked as often as one that sends", "recovery/retransmit_request.h", {
        "times > kTimesSoon && ": "false && ",
    }),
    ("after a silence lost packets are not looked at", "qp/gaps/request_gaps.cc", {
        "too_many || was_silent || ": "too_many || ",
    }),
    *FAST_PATHS,
    # --- flows behind one queue, hosts that lose their core ---
    ("a host's absence ends no crowd", "congestion/delay_window.cc", {
        "    silence_.on_absence(now);\n    end_crowd();\n": "    silence_.on_absence(now);\n",
    }),
    ("losses soon after a host's absence make a crowd", "congestion/delay_window.cc", {
        "const bool excused = absent || losses_.by_queue.is_excused(now);": "const bool excused = losses_.by_queue.is_excused(now);",
    }),
    ("a loss soon after a host's absence leaves the additive part out", "congestion/delay_window.cc", {
        "  if (!absent) additive_.on_loss();": "  additive_.on_loss();",
    }),
    ("a queue takes from the additive part though a host was absent", "congestion/delay_window.cc", {
        "additive_.bytes(allowed, absent ? allowed : base_rtt() + delay_.met);": "additive_.bytes(allowed, base_rtt() + delay_.met);",
    }),
    ("a drain soon after a host's absence shows a crowd", "congestion/delay_window.cc", {
        "  if (!silence_.was_absent(base_rtt(), now)) crowding_.on_drained": "  crowding_.on_drained",
    }),
    ("a host's absence is forgotten at once", "congestion/window/host_silence.cc", {
        "  return absent_at_ && now - *absent_at_ <": "  return absent_at_ && now - *absent_at_ + 1_s <",
    }),
    ("random losses of a crowded flow are never found out", "congestion/delay_window.cc", {
        "if (window_ >= kConfig.min_bytes && losses_.by_queue.on_loss(bytes, packet_bytes, now)) {": "if (window_ > 1'000'000'000 && losses_.by_queue.on_loss(bytes, packet_bytes, now)) {",
    }),
    ("a crowded flow notes silences", "congestion/window/crowding.h", {
        "return !crowded_; }\n  [[nodiscard]] bool may_bridge": "return true; }\n  [[nodiscard]] bool may_bridge",
    }),
    ("a crowded flow bridges the silence of a loss", "congestion/window/crowding.h", {
        "return !crowded_ || calm_ >= CrowdingConfig{}.bridge_rounds;": "return true;",
    }),
    ("a crowded flow's small window leaves in bursts", "congestion/window/crowding.h", {
        "return crowded_ && window < CrowdingConfig{}.paced_bytes;": "return false;",
    }),
    ("a drain makes no flow crowded", "congestion/window/crowding.cc", {
        "  crowded_ = shared_ = true;\n": "",
    }),
]
