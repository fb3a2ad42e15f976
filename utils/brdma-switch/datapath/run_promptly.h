// brdma-switch/datapath/run_promptly.h - packets wait while other programs hold the cores: gives the calling thread
// precedence.
#pragma once

namespace brdma::lab {

// As root by priority; else by a request for short time slices, with which the fair scheduler (Linux 6.12 on) runs the
// thread soon after a wakeup. Either may be refused: then it is only slower.
void run_promptly();

}  // namespace brdma::lab
