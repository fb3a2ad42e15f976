// io/poll/poll_policy.cc
#include "io/poll/poll_policy.h"

namespace brdma::io {

bool PollPolicy::stays(const Engine::Load& load) {
  start_came_ = false;
  if (!expects(load)) [[likely]]
    return false;
  const bool trial = stayed_ >= kStaysPerTrial;
  if (trial) stayed_ = Duration{};
  returned_ = score_ < kScoreToStay || trial || stay_max_ == Duration{};
  return !returned_;
}

}  // namespace brdma::io
