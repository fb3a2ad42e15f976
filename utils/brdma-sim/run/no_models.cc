// A build without utils/brdma-sim/models.
#include "run/models.h"

namespace brdma::simulator {

std::vector<std::string_view> model_names() { return {}; }
bool is_notified_model(std::string_view /*name*/) { return false; }
std::unique_ptr<ModelFlows> make_model_flows(sim::World& /*world*/, sim::RoutedNetwork& /*network*/,
                                             const Scenario& /*scenario*/, const Shape& /*shape*/) {
  return nullptr;
}

}  // namespace brdma::simulator
