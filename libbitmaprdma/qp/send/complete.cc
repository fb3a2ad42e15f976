// Each acknowledgement and each response ends here: one call from the rooms of both (passed_messages.h).
#include "qp/send/passed_messages.h"
#include "qp/send/requester_impl.h"

namespace brdma::qp {

namespace {

[[gnu::always_inline]] inline PassedMessages passed(Requester::Impl& me) {
  return PassedMessages{{me.scoreboard, me.messages, me.segments, me.losses.recovery, me.responses,
                         me.response_receiver, me.completer()}};
}

}  // namespace

void Requester::Impl::advance(Instant now) {
  if (passed(*this).advance(now)) complete_passed(now);
}

void Requester::Impl::complete_passed(Instant now) { passed(*this).complete(now); }

}  // namespace brdma::qp
