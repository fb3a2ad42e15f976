#include "lab/commands/routing.h"

#include <cstdio>
#include <string>
#include <vector>

#include "lab/processes/client.h"
#include "objects.h"

namespace brdma::lab {
namespace {

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    words.push_back(list.substr(from, comma - from));
    from = comma + 1;
  }
  return words;
}

std::uint64_t count(const Json& from, const char* name) { return from.at(name).get<std::uint64_t>(); }

std::uint64_t lost_of(const Json& direction) {
  std::uint64_t lost = 0;
  for (const char* name :
       {"lost", "burst_lost", "queue_dropped", "buffer_dropped", "random_dropped", "refused_down", "lost_in_flight"}) {
    lost += count(direction, name);
  }
  return lost;
}

std::string joined(const Json& words) {
  std::string text;
  for (const Json& word : words) text += (text.empty() ? "" : ",") + word.get<std::string>();
  return text;
}

}  // namespace

Json change_link(const LabOptions& options) {
  const auto& words = options.operands;
  const auto& network = options.plan.network;
  const bool set = words.size() == 2 && words[1] == "set",
             state = words.size() == 2 && (words[1] == "up" || words[1] == "down");
  if ((!set && !state) || set == network.empty()) {
    throw UsageError("expected: brdma lab link LINK up|down, or brdma lab link LINK set --delay 20ms --loss 1% ...");
  }
  Json request{{"command", "link"}, {"link", words[0]}};
  request[set ? "options" : "state"] = set ? Json(network) : Json(words[1]);
  return ask_switch(options.plan.name, request);
}

Json change_route(const LabOptions& options) {
  const auto& words = options.operands;
  const bool remove = words.size() == 3 && words[1] == "del";
  const bool put = words.size() == 5 && (words[1] == "add" || words[1] == "replace") && words[3] == "via";
  if (!remove && !put) {
    throw UsageError("expected: brdma lab route SWITCH add|replace PREFIX via PORT[,PORT...], or SWITCH del PREFIX");
  }
  Json route{{"prefix", words[2]}};
  if (put) route["via"] = split(words[4]);
  return ask_switch(options.plan.name,
                    {{"command", "routes"}, {"switch", words[0]}, {words[1], Json::array({std::move(route)})}});
}

void print_topology(const Json& show) {
  std::vector<std::vector<std::string>> links{
      {"links:"}, {"", "state", "delay", "rate", "loss", "packets", "back", "lost", "queue", "longest", "in flight"}};
  for (const Json& link : show.at("links")) {
    const Json &there = link.at("directions").at(0), &back = link.at("directions").at(1);
    const auto option = [&link](const char* name) { return link.at("options").at(name).get<std::string>(); };
    const auto both = [&](const char* name) {
      return grouped(count(there.at("queue"), name) + count(back.at("queue"), name));
    };
    links.push_back({link.at("link"), link.at("up").get<bool>() ? "up" : "down", option("delay"), option("rate"),
                     option("loss"), grouped(count(there, "forwarded")), grouped(count(back, "forwarded")),
                     grouped(lost_of(there) + lost_of(back)), both("bytes"), both("longest"),
                     grouped(count(there, "pending") + count(back, "pending"))});
  }
  print_table(links);
  std::vector<std::vector<std::string>> switches{
      {"switches:"}, {"", "received", "forwarded", "no route", "hops spent", "inquiries", "answered", "reports"}};
  for (const Json& each : show.at("switches")) {
    switches.push_back({each.at("switch"), grouped(count(each, "received")), grouped(count(each, "forwarded")),
                        grouped(count(each, "no_route")), grouped(count(each, "hops_spent"))});
    const Json& agent = each.at("link_state");
    for (const char* name : {"inquiries", "answered", "reports"}) {
      switches.back().push_back(agent.is_null() ? "off" : grouped(count(agent, name)));
    }
  }
  print_table(switches);
  for (const Json& each : show.at("switches")) {
    for (const Json& route : each.at("routes")) {
      std::printf("%s: %s via %s\n", each.at("switch").get<std::string>().c_str(),
                  route.at("prefix").get<std::string>().c_str(), joined(route.at("via")).c_str());
    }
  }
}

}  // namespace brdma::lab
