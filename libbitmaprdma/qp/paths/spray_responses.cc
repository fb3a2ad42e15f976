#include "qp/paths/spray_responses.h"

#include <optional>

namespace brdma::qp {

std::uint8_t SprayedResponses::next_path(const Response& first, std::span<const recovery::PathFacts> sending,
                                         Instant now) const {
  Environment& env = parts_.env;
  const Identity& identity = parts_.identity;
  if (!parts_.paths) {
    parts_.paths = std::make_unique<ResponsePaths>(identity.sending_paths, identity.recovery->spraying);
  }
  if (const auto path = parts_.paths->take_back(now)) {
    env.count(Counter::kPathReturned);
    env.trace(now, identity.qpn, trace::PathUp{*path});
    env.note(now, identity.qpn, trace::EventType::kPathUp, *path, env.config.source_ports[*path]);
  }
  return parts_.paths->choose(sending, first.replay ? std::optional{first.psn} : std::nullopt, now);
}

void SprayedResponses::on_rerequest(Psn first, std::uint32_t count, Instant now) const {
  if (!parts_.paths) [[likely]]
    return;
  const auto silent = parts_.paths->on_rerequest(first, count, now);
  if (!silent) return;
  Environment& env = parts_.env;
  const std::uint32_t qpn = parts_.identity.qpn;
  env.count(Counter::kPathSilent);
  env.trace(now, qpn, trace::PathDown{*silent});
  env.note(now, qpn, trace::EventType::kPathDown, *silent, env.config.source_ports[*silent]);
}

}  // namespace brdma::qp
