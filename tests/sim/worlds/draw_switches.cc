// Switches that take part, in every second world. They report drops (DN-4), with merge tables down to one flow and
// few notifications a second; they mark, and turn marks into round-trip time (ER-14). Also the hosts' reactions: a
// congestion control of their own, rates, pauses, or nothing.
//
// Drawn from a random stream of its own, so that the rest of a seed's world does not depend on these switches.
#include <iterator>

#include "worlds/draws.h"
#include "worlds/world_settings.h"

namespace brdma::test {
namespace {

fabric::DropNotifier::Config draw_notification(Random& random) {
  fabric::DropNotifier::Config edn;
  if (one_in(random, 4)) return edn;
  edn.form = one_in(random, 2) ? fabric::EdnForm::kIcmp : fabric::EdnForm::kRoce;
  edn.table.flows_max = one_in(random, 2) ? draw(random, 1, 4) : 1024;
  if (one_in(random, 3)) edn.table.silence = 1_us + draw_up_to(random, 1_ms);
  if (one_in(random, 3)) {
    edn.notices_per_second = draw(random, 100, 100'000);
    edn.burst = draw(random, 1, 16);
  }
  return edn;
}

fabric::RttTranslator::Config draw_translation(Random& random) {
  fabric::RttTranslator::Config translation;
  translation.increment.rule = static_cast<fabric::IncrementRule>(random.below(4));
  translation.increment.longest = 1_us + draw_up_to(random, 300_us);
  translation.increment.levels = static_cast<std::uint8_t>(draw(random, 2, 10));
  if (one_in(random, 2)) translation.increment.window = static_cast<std::uint8_t>(draw(random, 1, 32));
  translation.rewrite = one_in(random, 2) ? fabric::Rewrite::kTr : fabric::Rewrite::kTs;
  if (one_in(random, 2)) translation.flows_max = draw(random, 1, 4);
  return translation;
}

// A queue if there is a rate.
void draw_marks(LinkSettings& link, Random& random) {
  if (!link.clean.rate || one_in(random, 4)) return;
  fabric::MarkingConfig marking;
  marking.low = draw(random, 0, 40'000);
  marking.high = marking.low + draw(random, 0, 160'000);
  marking.chance_ppm = draw(random, 0, 1'000'000);
  if (one_in(random, 3)) marking.by = fabric::MarkedBy::kDelay;  // the same numbers, as nanoseconds
  link.clean.marking = marking;
  for (auto& way : link.faulty) way.marking = marking;
}

void draw_congestion(sim::HostConfig& host, Random& random) {
  constexpr CongestionControl kControls[] = {CongestionControl::kTimely, CongestionControl::kDcqcn,
                                             CongestionControl::kBoth, CongestionControl::kPaced,
                                             CongestionControl::kNone};
  constexpr EcnField kFields[] = {EcnField::kOff, EcnField::kEct0, EcnField::kEct1};
  RecoveryConfig& recovery = host.engine.recovery;
  CongestionConfig& congestion = recovery.congestion;
  if (!one_in(random, 3)) congestion.control = kControls[random.below(std::size(kControls))];
  if (one_in(random, 2)) congestion.ecn = kFields[random.below(std::size(kFields))];
  // No slower than the bound of a world's duration assumes.
  congestion.rate_min_mbps = draw(random, 100, 1'000);
  congestion.rate_first_mbps = draw(random, 100, 40'000);
  congestion.rate_max_mbps = draw(random, 1'000, 100'000);
  if (one_in(random, 3)) congestion.burst_bytes = draw(random, 1, 200'000);
  if (one_in(random, 3)) congestion.pace_interval = draw_up_to(random, 100_us);
  if (one_in(random, 3)) congestion.cnp_interval = draw_up_to(random, 50_us);
  if (one_in(random, 3)) recovery.edn_pause_max = draw_up_to(random, 200_us);
  congestion.edn = !one_in(random, 4);
  recovery.edn = !one_in(random, 6);
}

}  // namespace

void draw_switches(WorldSettings& world, Random& random) {
  if (one_in(random, 2)) return;
  world.switches.edn = draw_notification(random);
  for (LinkSettings& link : world.links) draw_marks(link, random);
  if (one_in(random, 2)) world.switches.translation = draw_translation(random);
  for (sim::HostConfig& host : world.hosts) draw_congestion(host, random);
}

}  // namespace brdma::test
