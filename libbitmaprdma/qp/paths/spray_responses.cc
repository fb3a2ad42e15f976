// qp/paths/spray_responses.cc - responses over several paths (spec 1: multipath): the path of a batch, and the evidence
// of READ re-requests about the paths (qp/paths/response_paths.h).
#include "qp/receive/responder_impl.h"

namespace brdma::qp {

std::uint8_t Responder::Impl::response_path(std::span<const recovery::PathFacts> sending, Instant now) {
  if (!response_paths) response_paths = std::make_unique<ResponsePaths>(identity.sending_paths, recovery().spraying);
  if (const auto path = response_paths->take_back(now)) {
    env.count(Counter::kPathReturned);
    env.trace(now, identity.qpn, trace::PathUp{*path});
    env.note(now, identity.qpn, trace::EventType::kPathUp, *path, env.config.source_ports[*path]);
  }
  const Response& front = resources.front();
  return response_paths->choose(sending, front.replay ? std::optional{front.psn} : std::nullopt, now);
}

// [first, first + count) was answered before.
void Responder::Impl::note_rerequested(Psn first, std::uint32_t count, Instant now) {
  if (!response_paths) [[likely]]
    return;
  const auto silent = response_paths->on_rerequest(first, count, now);
  if (!silent) return;
  env.count(Counter::kPathSilent);
  env.trace(now, identity.qpn, trace::PathDown{*silent});
  env.note(now, identity.qpn, trace::EventType::kPathDown, *silent, env.config.source_ports[*silent]);
}

}  // namespace brdma::qp
