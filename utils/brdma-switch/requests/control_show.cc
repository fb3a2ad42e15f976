#include "requests/control_show.h"

#include <string>
#include <utility>

#include "fabric/network.h"
#include "io/shard/clock.h"
#include "topology/prefix_text.h"

namespace brdma::lab {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFlowsShown = 32;

}  // namespace

Json link_json(const fabric::LinkCounters& counters) {
  Json link = Json::object();
#define BRDMA_X(member) link[#member] = counters.member;
  BRDMA_LINK_COUNTERS(BRDMA_X)
#undef BRDMA_X
  return link;
}

namespace {

// Of traffic to the host behind `port`.
Json paths_json(const fabric::Switch<SwitchPacket>& fabric, std::uint32_t port) {
  Json paths = Json::array();
  for (std::uint32_t path = 0; path < fabric.config().link.paths; ++path) {
    paths.push_back(link_json(fabric.path_counters(port, path)));
  }
  return paths;
}

}  // namespace

Json trouble_json(const PortTrouble& trouble) {
  return {{"overruns", trouble.overruns},
          {"no_buffer", trouble.no_buffer},
          {"malformed", trouble.malformed},
          {"refused", trouble.refused}};
}

Json processing_json(const fabric::ProcessorCounters& counters) {
  return {{"processed", counters.processed}, {"dropped", counters.dropped}, {"longest", counters.longest}};
}

Json edn_json(const fabric::DropNotifier& notifier) {
  const auto& table = notifier.table().counters();
  const auto& sent = notifier.counters();
  return {{"dropped", table.dropped},
          {"merged", table.merged},
          {"first", table.first},
          {"tails", table.tails},
          {"silent", table.silent},
          {"displaced", table.displaced},
          {"flows", notifier.table().flows()},
          {"flows_most", table.flows_most},
          {"sent", sent.sent},
          {"sent_bytes", sent.sent_bytes},
          {"limited", sent.limited},
          {"untold", sent.formless}};
}

// Queued packets, in total and by class.
Json queue_json(const fabric::OutputQueue<SwitchPacket>& queue, std::uint32_t class_count) {
  Json classes = Json::array();
  for (std::uint32_t i = 0; i < class_count; ++i) {
    Json counters = Json::object();
#define BRDMA_X(member) counters[#member] = queue.counters(i).member;
    BRDMA_CLASS_COUNTERS(BRDMA_X)
#undef BRDMA_X
    classes.push_back(std::move(counters));
  }
  return {{"bytes", queue.occupied()},
          {"longest", queue.longest()},
          {"packets", queue.size()},
          {"classes", std::move(classes)}};
}

Json ecn_json(const IpActions& actions) {
  const auto& marks = actions.marks();
  Json ecn{{"set", marks.set}, {"not_able", marks.not_able}, {"taken_over", marks.taken_over}};
  const auto& translator = actions.translator();
  const fabric::RttTranslator::Counters none;
  const auto& counters = translator ? translator->counters() : none;
  ecn["translated"] = {{"flows", translator ? translator->flows() : 0},
                       {"forward", counters.forward},
                       {"marked", counters.marked},
                       {"returning", counters.returning},
                       {"rewritten", counters.rewritten},
                       {"untranslated", counters.untranslated},
                       {"table_full", counters.table_full}};
  return ecn;
}

namespace {

Json count_json(const fabric::FlowCount& count) {
  Json json = Json::object();
#define BRDMA_X(member) json[#member] = count.member;
  BRDMA_FLOW_COUNTERS(BRDMA_X)
#undef BRDMA_X
  return json;
}

}  // namespace

// The busiest flows, and the sum of those that the table has evicted.
Json flows_json(const fabric::FlowCounters& flows) {
  Json busiest = Json::array();
  for (const auto& entry : flows.most(kFlowsShown)) {
    Json flow{{"source", print_address(entry.flow.source)},
              {"destination", print_address(entry.flow.destination)},
              {"protocol", entry.flow.protocol},
              {"source_port", entry.flow.source_port},
              {"destination_port", entry.flow.destination_port}};
    flow.update(count_json(entry.count));
    busiest.push_back(std::move(flow));
  }
  return {{"known", flows.flows()}, {"busiest", std::move(busiest)}, {"forgotten", count_json(flows.others())}};
}

Json describe_network(const fabric::NetworkConfig& config) {
  Json network = Json::object();
  for (const auto& option : fabric::network_options()) {
    network[std::string{option.name}] = fabric::get_option(config, option.name);
  }
  return network;
}

Json show_switch(SwitchCore& core, DataLoop& loop) {
  auto& fabric = core.fabric();
  Json hosts = Json::array();
  fabric::LinkCounters total;
  fabric.advance(io::monotonic_now());
  PortTrouble total_trouble;
  for (std::uint32_t i = 0; i < fabric.port_count(); ++i) {
    const PortTrouble& trouble = loop.trouble(i);
    hosts.push_back({{"host", loop.specs()[i].host},
                     {"from_host", link_json(fabric.up_counters(i))},
                     {"to_host", link_json(fabric.down_counters(i))},
                     {"paths", paths_json(fabric, i)},
                     {"queue", queue_json(fabric.queue(i), fabric.config().link.classes.count)},
                     {"switch_trouble", trouble_json(trouble)}});
    total += fabric.down_counters(i);
    total.queue_dropped += fabric.up_counters(i).queue_dropped;
    total_trouble.overruns += trouble.overruns;
    total_trouble.no_buffer += trouble.no_buffer;
    total_trouble.malformed += trouble.malformed;
    total_trouble.refused += trouble.refused;
  }
  return {{"ok", true},
          {"network", describe_network(fabric.config())},
          {"hosts", std::move(hosts)},
          {"total", link_json(total)},
          {"buffer", {{"used", fabric.buffer().used()}, {"most", fabric.buffer().most()}}},
          {"processing", processing_json(fabric.processing())},
          {"ecn", ecn_json(core.ip_actions())},
          {"flows", flows_json(core.ip_actions().flows())},
          {"edn", edn_json(core.drop_notices().notifier())},
          {"switch_trouble", trouble_json(total_trouble)}};
}

}  // namespace brdma::lab
