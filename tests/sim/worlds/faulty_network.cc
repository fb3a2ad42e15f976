#include "worlds/faulty_network.h"

namespace brdma::test {

FaultyNetwork::FaultyNetwork(sim::World& world, const WorldSettings& settings, const std::vector<sim::Host*>& hosts)
    : world_(world), settings_(settings), hosts_(hosts), states_(settings.links.size()) {
  for (const LinkSettings& link : settings_.links) {
    world_.join(*hosts_[link.hosts[0]], *hosts_[link.hosts[1]], link.faulty[0], link.faulty[1]);
  }
  if (settings_.switches.edn.form != fabric::EdnForm::kOff) world_.notify_drops(settings_.switches.edn);
  if (settings_.switches.translation) world_.translate_marks(*settings_.switches.translation);
}

void FaultyNetwork::end_faults() {
  clean_ = true;
  for (std::size_t link = 0; link < states_.size(); ++link) configure(link);
}

void FaultyNetwork::change(const Silence& silence, int by) {
  State& state = states_[silence.link];
  (silence.path ? state.silent_paths[*silence.path] : state.silent) += by;
  configure(silence.link);
}

void FaultyNetwork::configure(std::size_t link) {
  const Sides<std::size_t>& ends = settings_.links[link].hosts;
  for (std::size_t side = 0; side < 2; ++side) {
    world_.configure_link(*hosts_[ends[side]], *hosts_[ends[1 - side]], config_of(link, side));
  }
}

fabric::LinkConfig FaultyNetwork::config_of(std::size_t link, std::size_t side) const {
  constexpr std::uint32_t kAll = 1'000'000;
  const LinkSettings& settings = settings_.links[link];
  fabric::LinkConfig config = clean_ ? settings.clean : settings.faulty[side];
  if (clean_) return config;
  if (states_[link].silent > 0) config.impairments.loss_ppm = kAll;
  for (std::size_t path = 0; path < fabric::kLinkPathsMax; ++path) {
    if (states_[link].silent_paths[path] > 0) config.path_loss_ppm[path] = kAll;
  }
  return config;
}

}  // namespace brdma::test
