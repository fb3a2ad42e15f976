// brdma-switch/run_promptly.h - packets wait while other programs hold the cores: the calling thread is to be first in
// line.
#pragma once

namespace brdma::lab {

// As root by priority; else by asking for short turns, which makes the fair scheduler (Linux 6.12 on) run us soon after
// we wake. Either may be refused: only slower.
void run_promptly();

}  // namespace brdma::lab
