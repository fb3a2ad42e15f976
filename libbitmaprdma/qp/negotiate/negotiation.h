// qp/negotiate/negotiation.h - state of the agreement on bitmap mode: when CAPS is sent again, and how often.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/compact_optional.h"
#include "base/units.h"
#include "qp/state/environment.h"

namespace brdma::qp {

struct Negotiation {
  static constexpr unsigned kAskMax = 8;  // the last at 64 ms: later the peer asks itself

  bool ask_due = false;
  bool response_due = false;
  bool challenge = false;  // the answer asks in turn: its sender is to prove that it receives our packets
  bool stated = false;     // `echo` was in a CAPS that was sent
  std::uint8_t asked = 0;
  std::uint8_t answered = 0;     // modulo 256
  std::uint8_t asked_of_us = 0;  // after it was agreed; likewise
  CompactOptional<Instant> ask_again;
  std::uint64_t echo = 0;  // the token stated last, by whomever
  Instant challenged_at;   // first time `echo` was stated to the peer; after the agreement, the last time

  // A CAPS is to be sent now.
  [[nodiscard]] bool due() const { return ask_due || response_due; }
  // One was asked and has no answer yet, or is to be.
  [[nodiscard]] bool asking() const { return ask_due || ask_again; }
  // Nothing is left to ask.
  void asked_all() {
    ask_due = false;
    ask_again.reset();
  }
  void ask_more() { ask_due = asked < kAskMax; }
  void handle_timeout(Instant now) {
    if (!ask_again || now < *ask_again) return;
    ask_again.reset();
    ask_due = true;
  }
  // After the agreement: a peer that still asks has not received the answer. One CAPS may have crossed it. `proven`: it
  // has read our CAPS.
  [[nodiscard]] bool answer_is_lost(bool proven) { return !proven || ++asked_of_us > 1; }
  void note_token(std::uint64_t token) {
    stated = stated && token == echo;
    echo = token;
  }
  // Before the agreement: the path of the open request, else of the answer, of `paths`. Each takes another path, for
  // one may be silent from the beginning. A peer that never answers is a standard one, and knows one path.
  [[nodiscard]] std::uint8_t path(std::uint32_t paths) const;  // negotiator.cc
};

// Our source ports, as far as used for spraying.
[[nodiscard]] inline std::uint32_t own_paths(Environment& env) {
  return std::min(static_cast<std::uint32_t>(env.config.source_ports.size()), kPathsMax);
}

}  // namespace brdma::qp
