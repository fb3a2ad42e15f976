"""Mutations of the conditions under which a packet takes a fast path, as in mutations.py: one condition each, left out.

What a fast path takes is checked a second time on the general path, so a condition that is missing here does harm only
where both differ. Conditions that follow from another of the same path stand in none of these.
"""

SINGLE, RUNS, SMALL, MIDDLE = (f"qp/transmit/{name}.h" for name in ("single_request", "runs", "small_runs", "middle_runs"))
ACKS, ACK_PATH, WRITES, SINGLE_WRITE = "qp/loss/cumulative_acks.h", "qp/loss/ack_fast_path.cc", "qp/receive/fast_writes.h", "qp/receive/single_write.cc"
RESPONSES, SERVED = "qp/read/middle_responses.h", "qp/respond/serve_read_middle.cc"

FAST_PATHS = [
    # --- a lone request; two more stand in mutations.py ---
    ("a lone request overtakes a message that has begun", SINGLE, {
        "parts_.messages.empty() && ": "",
    }),
    ("a request is lone though another is posted", SINGLE, {
        "queue.next() + 1 == queue.tail()": "queue.next() != queue.tail()",
    }),
    ("a lone request leaves in SQD", SINGLE, {
        "runs.id().state == QpState::kRts && ": "",
    }),
    ("a lone request leaves beside losses", SINGLE, {
        "!parts_.loss && ": "",
    }),
    ("a lone request does not wait for its rate", SINGLE, {
        "!has_signals(parts_.signals, runs.id().recovery->wan) &&": "true &&",
    }),
    ("a lone small request is no large command", SINGLE, {
        " && runs.small_is_not_large();": ";",
    }),
    ("a lone request needs no credit for its packet", SINGLE, {
        "more.packets == 0 || ": "",
    }),
    ("a lone request needs no credit for its bytes", SINGLE, {
        " || length > more.bytes)": ")",
    }),
    ("a lone request is put into a full batch", SINGLE, {
        "room == 0 ? !batch.fits(size, 0, true) :": "room == 0 ? false :",
    }),
    ("a lone request with an acknowledgement is put into a full batch", SINGLE, {
        " || !batch.fits_grown(size))": ")",
    }),
    ("a lone request with an acknowledgement is longer than the path MTU allows", SINGLE, {
        "size > wire::packet_bytes_max(id.mtu()) || ": "",
    }),
    ("only the first piece of a lone request's memory is sent", SINGLE, {
        "if (wqe.sge_count != 1) return nullptr;": "if (wqe.sge_count == 0) return nullptr;",
    }),
    ("a lone request's memory that is unmapped is sent", SINGLE, {
        "return memory.holds(at, sge.length) ? at : nullptr;": "return at;",
    }),
    # --- runs of new packets; three more in mutations.py ---
    ("packets leave in runs to a standard peer", RUNS, {
        "return parts_.id.bitmap_agreed && ": "return ",
    }),
    ("packets leave in runs on several paths", RUNS, {
        "!parts_.paths && ": "",
    }),
    ("packets leave in runs while a receiver was not ready", RUNS, {
        "!parts_.rnr.is_recovering() && ": "",
    }),
    ("packets leave in runs behind a fault", RUNS, {
        " && !parts_.fault.is_set() &&": " &&",
    }),
    ("packets leave in runs though the sender judges", RUNS, {
        "parts_.judge == nullptr && ": "",
    }),
    ("a request of any kind leaves in a run", RUNS, {
        "return (wqe.opcode == WorkOpcode::kRdmaWrite || wqe.opcode == WorkOpcode::kSend) && ": "return ",
    }),
    ("a request that is not copied leaves in a run", RUNS, {
        "wqe.length <= kCopiedBytesMax &&\n": "true &&\n",
    }),
    ("a large command may be small", RUNS, {
        "return threshold == 0 || threshold > kCopiedBytesMax;": "return threshold + 1 > 0;",
    }),
    ("small requests leave in a run in SQD", SMALL, {
        "runs.id().state == QpState::kRts &&\n": "true &&\n",
    }),
    ("small requests overtake the rest of a message", SMALL, {
        "parts_.messages.all_left(runs.scoreboard().next()) && ": "",
    }),
    ("small requests leave in front of the rest of a READ", SMALL, {
        "parts_.next.cut == 0 && ": "",
    }),
    ("small requests in a run are no large commands", SMALL, {
        " && runs.small_is_not_large();": ";",
    }),
    ("a run takes requests of another kind", SMALL, {
        "wqe.opcode != run.opcode || ": "",
    }),
    ("a run takes a request with a fence", SMALL, {
        " || !runs.is_small(wqe) || ": " || ",
    }),
    ("a run takes more bytes than it may", SMALL, {
        " || run.used.bytes + wqe.length > run.allowed.bytes) return false;": ") return false;",
    }),
    ("a run takes more packets than it may", SMALL, {
        "while (run.message.wqe != queue.tail() && run.used.packets < run.allowed.packets) {": "while (run.message.wqe != queue.tail()) {",
    }),
    ("a run goes on in a full batch", SMALL, {
        "if (run.room == 0 || !cursor": "if (!cursor",
    }),
    ("a message's first packet leaves as a MIDDLE packet", MIDDLE, {
        "if (next == message.first || ": "if (",
    }),
    ("a message's last packet leaves as a MIDDLE packet", MIDDLE, {
        "std::min({std::uint64_t{message.end() - 1 - next}": "std::min({std::uint64_t{message.end() - next}",
    }),
    ("MIDDLE packets leave in runs in any state", MIDDLE, {
        "if (!runs.in_steady_state() || ": "if (",
    }),
    ("READ requests leave as MIDDLE packets", MIDDLE, {
        "message.answered() || ": "",
    }),
    ("data leaves where a reference would do", MIDDLE, {
        "message.by_reference != 0 || ": "",
    }),
    ("MIDDLE packets of segments leave in runs", MIDDLE, {
        " || message.segment_packets != 0)": ")",
    }),
    ("MIDDLE packets go on in a full batch", MIDDLE, {
        "count = std::min<std::uint64_t>(count, batch.room(bytes));": "(void)bytes;",
    }),
    # --- an acknowledgement of everything in flight ---
    ("an acknowledgement of some packets counts for all", ACKS, {
        "ack.base == parts_.scoreboard.next_psn() && ": "(void(ack), true) && ",
    }),
    ("what is acknowledged already is acknowledged again", ACKS, {
        "!parts_.scoreboard.empty() && ": "",
    }),
    ("all packets are acknowledged though some have records", ACKS, {
        "parts_.scoreboard.is_in_order() && ": "",
    }),
    ("READs are done when their requests have arrived", ACKS, {
        "parts_.responses.messages() == 0 && ": "",
    }),
    ("all packets are acknowledged past their segments", ACKS, {
        "parts_.segments.size() == 0 &&\n": "true &&\n",
    }),
    ("all packets are acknowledged without evidence for their paths", ACKS, {
        "!parts_.paths && parts_.judge": "parts_.judge",
    }),
    ("all packets are acknowledged past the sender's judge", ACKS, {
        " && parts_.judge == nullptr;": ";",
    }),
    ("all packets are acknowledged past loss recovery", ACKS, {
        "!parts_.loss &&\n": "true &&\n",
    }),
    ("all packets are acknowledged past the RNR recovery window", ACKS, {
        "!parts_.rnr.is_recovering() && ": "",
    }),
    ("all packets are acknowledged past the wait after an RNR NAK", ACKS, {
        "!parts_.rnr.waiting() && ": "",
    }),
    ("all packets are acknowledged past the paths of responses", ACKS, {
        " && parts_.receiver.paths() == nullptr;": ";",
    }),
    ("a plain acknowledgement is taken in any state", ACK_PATH, {
        "if (!takes_cumulative_acks()) return false;": "",
    }),
    ("a plain acknowledgement may name another's queue pair", ACK_PATH, {
        "ack.source_qpn != identity_.attributes.destination_qpn ||\n": "false ||\n",
    }),
    ("a plain acknowledgement with a wrong ICRC is taken", ACK_PATH, {
        " ||\n      !wire::icrc_holds(received_flow, packet)": "",
    }),
    ("a piggybacked acknowledgement of some packets counts for all", ACK_PATH, {
        "qp::negotiates(identity_) && requester.cumulative_acks().acknowledges_all(all);": "qp::negotiates(identity_);",
    }),
    ("a plain acknowledgement of some packets counts for all", ACK_PATH, {
        "if (!requester.cumulative_acks().acknowledges_all(all)) {": "if (identity_.state == QpState::kReset) {",
    }),
    ("an RTT sample waits on a long path", "qp/loss/ack_fast_path.h", {
        "measured > kShortPath || ": "",
    }),
    ("an RTT sample waits though the rate needs it", "qp/loss/ack_fast_path.h", {
        "has_signals(me.path.signals, me.id.recovery->wan) || ": "",
    }),
    ("an RTT sample waits though a timeout is undecided", "qp/loss/ack_fast_path.h", {
        " || me.timers.has_undecided())": ")",
    }),
    ("an RTT that cannot be is a sample", "qp/loss/ack_fast_path.h", {
        "  if (!recovery::is_possible_round_trip(measured)) return;\n": "",
    }),
    ("an RTT sample that waits is lost to the next", "qp/loss/ack_fast_path.h", {
        "if (env.round_trip.requester != nullptr) static_cast<Impl*>(env.round_trip.requester)->apply_pending_round_trip();": "",
    }),
    # --- WRITEs in order ---
    ("a WRITE is fast before the connection is established", WRITES, {
        "parts_.connection.established && ": "",
    }),
    ("a WRITE is fast whichever packet it is", WRITES, {
        "psn == parts_.window.base() && ": "(void(psn), true) && ",
    }),
    ("a WRITE is fast while packets are missing", WRITES, {
        "parts_.window.empty() &&\n         !parts_.out_of_order && ": "true && ",
    }),
    ("a WRITE is fast though out-of-order state has not ended", WRITES, {
        "!parts_.out_of_order && ": "",
    }),
    ("a WRITE of several paths is fast", WRITES, {
        " && parts_.tolerance.paths() == nullptr;": ";",
    }),
    ("a WRITE is fast on a connection that does not serve", WRITES, {
        "!parts_.connection.serves() || ": "",
    }),
    ("a WRITE is fast inside another message", WRITES, {
        " || parts_.messages.in_progress()) return nullptr;": ") return nullptr;",
    }),
    ("a fast WRITE may be longer than the path MTU", WRITES, {
        "write.payload.size() > parts_.connection.mtu || ": "",
    }),
    ("a fast WRITE needs no right of the queue pair", WRITES, {
        " || (identity.attributes.access & kAccessRemoteWrite) == 0)": ")",
    }),
    ("a packet of any kind is a MIDDLE packet", WRITES, {
        "packet.op != wire::RcOp::kWriteMiddle || ": "",
    }),
    ("a MIDDLE packet needs no WRITE in progress", WRITES, {
        " || !messages.is_inside(Kind::kWrite)) return false;": ") return false;",
    }),
    ("a MIDDLE packet of several paths is fast", WRITES, {
        " || parts_.identity.receiving_paths > 1) return false;": ") return false;",
    }),
    ("a MIDDLE packet may have any length", WRITES, {
        "packet.payload.size() != mtu || ": "",
    }),
    ("a MIDDLE packet may end its WRITE", WRITES, {
        " || messages.bytes() + mtu >= messages.reth().length) return false;": ") return false;",
    }),
    ("a MIDDLE packet by reference is fast", WRITES, {
        "packet.bxth.operation == 0 && ": "",
    }),
    ("a MIDDLE packet of an operation is fast", WRITES, {
        "packet.bxth.operation_packets == 0 && ": "",
    }),
    ("a MIDDLE packet may be for elsewhere", WRITES, {
        " && messages.is_next_of_write(packet.reth);": ";",
    }),
    ("a fast WRITE is taken on several paths", SINGLE_WRITE, {
        " && id.receiving_paths == 1;": ";",
    }),
    ("a fast WRITE's congestion mark is not seen", SINGLE_WRITE, {
        "datagram.traffic_class % 4 == kEcnCongested ||\n": "false ||\n",
    }),
    ("a fast WRITE may be anybody's", SINGLE_WRITE, {
        " ||\n      !qp::is_peers(identity_, datagram.bytes)": "",
    }),
    ("a fast WRITE with a wrong ICRC is taken", SINGLE_WRITE, {
        " || !wire::icrc_holds(received_flow, datagram.bytes)) return": ") return",
    }),
    ("a fast WRITE is executed though its acknowledgement is refused", SINGLE_WRITE, {
        "if (environment_.telemetry.dropped == dropped) {": "{",
    }),
    ("a fast WRITE is executed though its acknowledgement has ended the queue pair", SINGLE_WRITE, {
        "if (identity_.can_receive()) [[likely]] {": "if (true) {",
    }),
    ("a fast path takes packets from any address", "device/receive.cc", {
        "const bool of_peer = datagram.source == attributes.peer_address && ": "const bool of_peer = ",
    }),
    # --- READ responses; one more in mutations.py ---
    ("a READ response of any kind is a MIDDLE one", RESPONSES, {
        "packet.op != wire::RcOp::kReadResponseMiddle || ": "",
    }),
    ("a MIDDLE READ response is the next one", RESPONSES, {
        " || packet.bth.psn != board.base_psn()) return false;": ") return false;",
    }),
    ("a MIDDLE READ response is fast past loss recovery", RESPONSES, {
        "if (parts_.loss || parts_": "if (parts_",
    }),
    ("a MIDDLE READ response is fast past the sender's judge", RESPONSES, {
        "parts_.sender_judges || ": "",
    }),
    ("a MIDDLE READ response is fast past known paths", RESPONSES, {
        "parts_.receiver.paths() != nullptr ||\n": "false ||\n",
    }),
    ("a MIDDLE READ response of several paths is fast", RESPONSES, {
        " ||\n      (packet.bitmap && id.receiving_paths > 1))": " || id.receiving_paths == 99)",
    }),
    ("a MIDDLE READ response is fast though nothing is in flight", RESPONSES, {
        "if (board.empty() || parts_": "if (parts_",
    }),
    ("a MIDDLE READ response is fast though a timeout is undecided", RESPONSES, {
        " || parts_.timers.has_undecided()) return false;": ") return false;",
    }),
    ("a MIDDLE READ response answers any request", RESPONSES, {
        "message.kind == MessageKind::kRead && ": "",
    }),
    ("a MIDDLE READ response of a READ by reference is placed", RESPONSES, {
        "message.by_reference == 0 && ": "",
    }),
    ("a MIDDLE READ response by reference is placed", RESPONSES, {
        "!packet.bxth.by_reference() &&\n": "true &&\n",
    }),
    ("a MIDDLE READ response is a READ's first", RESPONSES, {
        "board.base() != message.first && ": "",
    }),
    ("a MIDDLE READ response is a READ's last", RESPONSES, {
        "board.base() + 1 != message.end() && ": "",
    }),
    ("a MIDDLE READ response says that its request has arrived", RESPONSES, {
        "board.cumulative() >= message.end() &&\n": "true &&\n",
    }),
    ("a MIDDLE READ response of any length is placed", RESPONSES, {
        "packet.payload.size() == id.mtu() && ": "",
    }),
    ("a MIDDLE READ response that was requested again is fast", RESPONSES, {
        " && board.state(board.base()) == bitmap::EntryState::kSentUnacked;": ";",
    }),
    ("READ responses leave in runs before the first", SERVED, {
        "if (!response.started || ": "if (",
    }),
    ("READ responses leave in runs to a standard peer", SERVED, {
        "if (!response.bitmap || response.replay": "if (response.replay",
    }),
    ("READ responses leave in runs on several paths", SERVED, {
        " || parts_.paths != nullptr) return 0;": ") return 0;",
    }),
    ("READ responses go on in a full batch", SERVED, {
        "std::min<std::size_t>(count, batch.room(TransmitBatch::packet_bytes(packet, mtu)))": "std::min<std::size_t>(count, 1u << 30)",
    }),
    ("a READ's memory that is unmapped is sent in runs", SERVED, {
        " ||\n      !env.memory.holds(data, bytes)": "",
    }),
]
