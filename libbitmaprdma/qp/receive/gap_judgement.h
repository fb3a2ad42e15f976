// qp/receive/gap_judgement.h - what the two receivers of a queue pair, of requests and of answers, have in common when
// they judge gaps: their limits by the settings, and what is counted and reported.
#pragma once

#include "base/config.h"
#include "bitmap/gap_table.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"
#include "recovery/gap_judge.h"
#include "recovery/tolerance.h"

namespace brdma::qp {

[[nodiscard]] recovery::ToleranceConfig tolerance_config(const RecoveryConfig& config);

// The gap is loss from now on.
void promote(bitmap::GapRecord& gap, recovery::LossCause cause, const Environment& env, const Identity& id,
             Instant now);
// What was promoted has come, and is no retransmission.
void note_misjudged(Psn psn, const Environment& env, const Identity& id, Instant now);

}  // namespace brdma::qp
