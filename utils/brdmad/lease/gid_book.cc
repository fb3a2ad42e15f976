#include "lease/gid_book.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace brdma::daemon {

GidBook::GidBook(GidRecords& kept) : kept_(kept) {
  std::map<std::uint32_t, std::vector<IpAddress>> slots;
  for (std::uint32_t i = 0; i < std::min<std::size_t>(kept.count, GidRecords::kMax); ++i) {
    const GidRecords::Entry& entry = kept.entries[i];
    if (entry.slot >= io::kGidSlotsMax) continue;
    std::vector<IpAddress>& table = slots[entry.ifindex];
    table.resize(std::max<std::size_t>(table.size(), entry.slot + 1));
    table[entry.slot] = entry.address;
  }
  for (const auto& [index, table] : slots) tables_.emplace(index, io::GidTable(table));
}

nlohmann::ordered_json GidBook::answer(const nlohmann::ordered_json& question) {
  if (const auto have = question.find("have"); have != question.end())
    tables_.merge(io::gid_tables_from(*have));  // only tables that are not here yet
  std::vector<io::Interface> interfaces;
  if (io::read_interfaces(interfaces) == 0) {
    io::update(tables_, interfaces);
    keep();
  }
  return {{"gids", io::to_json(tables_)}};
}

void GidBook::keep() {
  kept_.count = 0;
  std::uint32_t count = 0;
  for (const auto& [index, table] : tables_) {
    for (std::uint32_t slot = 0; slot < table.slots().size() && count < GidRecords::kMax; ++slot) {
      if (!table.slots()[slot].is_zero()) kept_.entries[count++] = {index, slot, table.slots()[slot]};
    }
  }
  kept_.count = count;
}

}  // namespace brdma::daemon
