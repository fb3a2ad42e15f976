// qp/spread_answers.cc - answers over several paths (spec 1: multipath): which path a batch of them takes, and what
// being asked for them again says of the paths (qp/answer_paths.h).
#include "qp/responder_impl.h"

namespace brdma::qp {

std::uint8_t Responder::Impl::answer_path(std::span<const recovery::PathFacts> sending, Instant now) {
  if (!answer_paths) answer_paths = std::make_unique<AnswerPaths>(identity.sending_paths, recovery().spraying);
  if (const auto path = answer_paths->take_back(now)) {
    env.count(Counter::kPathReturned);
    env.trace(now, identity.qpn, trace::PathUp{*path});
    env.note(now, identity.qpn, trace::EventType::kPathUp, *path, env.config.source_ports[*path]);
  }
  const Response& front = resources.front();
  return answer_paths->choose(sending, front.replay ? std::optional{front.psn} : std::nullopt, now);
}

// [first, first + count) was answered before.
void Responder::Impl::note_asked_again(Psn first, std::uint32_t count, Instant now) {
  if (!answer_paths) [[likely]]
    return;
  const auto silent = answer_paths->asked_again(first, count, now);
  if (!silent) return;
  env.count(Counter::kPathSilent);
  env.trace(now, identity.qpn, trace::PathDown{*silent});
  env.note(now, identity.qpn, trace::EventType::kPathDown, *silent, env.config.source_ports[*silent]);
}

}  // namespace brdma::qp
