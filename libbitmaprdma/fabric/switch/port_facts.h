// fabric/switch/port_facts.h - a link as a port of the switch's link-state agent.
#pragma once

#include <cstdint>
#include <optional>

#include "fabric/link.h"
#include "fabric/switch/link_state_agent.h"

namespace brdma::fabric {

[[nodiscard]] constexpr std::uint64_t bytes_per_second(const std::optional<Bandwidth>& rate) {
  return rate ? rate->bps() / 8 : 0;
}

// `built_rate`: original rate of the link, bytes a second; it may be slower by now. Call advance() before.
template <class Packet>
[[nodiscard]] PortFacts port_facts(const Link<Packet>& link, std::uint64_t built_rate, bool up) {
  const LinkConfig& config = link.config();
  const LinkCounters counters = link.counters();
  PortFacts facts{.up = up,
                  .rate = built_rate,
                  .can_do = bytes_per_second(config.rate),
                  .queue = static_cast<std::uint32_t>(link.queue().occupied()),
                  .queue_limit = config.rate ? static_cast<std::uint32_t>(config.queue_bytes) : 0,
                  .idle_times = link.queue().idle_times(),
                  .drops = counters.queue_dropped + counters.buffer_dropped + counters.random_dropped};
  for (std::uint32_t i = 0; i < config.classes.count; ++i) facts.taken_bytes += link.queue().counters(i).bytes;
  return facts;
}

}  // namespace brdma::fabric
