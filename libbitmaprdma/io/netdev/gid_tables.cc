#include "io/netdev/gid_tables.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "io/daemon/daemon_client.h"
#include "io/daemon/lease_protocol.h"
#include "io/netdev/netdev.h"
#include "io/udp/socket_address.h"

namespace brdma::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::chrono::seconds kAnswerWithin{2};  // a stopped brdmad delays the listing of devices by as much

std::atomic<bool> kept_apart{false};

std::string text_of(const IpAddress& address) {
  if (address.is_zero()) return {};
  std::array<char, INET6_ADDRSTRLEN> text{};
  const in6_addr raw = to_in6_addr(address);
  return ::inet_ntop(AF_INET6, &raw, text.data(), text.size());
}

IpAddress address_from(const Json& text) {
  in6_addr raw{};
  if (!text.is_string() || ::inet_pton(AF_INET6, text.get_ref<const std::string&>().c_str(), &raw) != 1) return {};
  return from_in6_addr(raw);
}

}  // namespace

std::optional<IpAddress> default_gid(const Interface& interface) {
  if (!interface.has_mac) return std::nullopt;
  const std::uint64_t eui64 = eui64_from_mac(interface.mac);
  IpAddress address;
  address.bytes[0] = 0xFE;
  address.bytes[1] = 0x80;
  for (std::size_t i = 0; i < 8; ++i) address.bytes[8 + i] = static_cast<std::uint8_t>(eui64 >> (56 - 8 * i));
  return address;
}

void update(GidTables& tables, std::span<const Interface> interfaces) {
  std::erase_if(tables, [&](const auto& entry) {
    return std::ranges::find(interfaces, entry.first, &Interface::index) == interfaces.end();
  });
  for (const Interface& interface : interfaces) {
    if (interface.addresses.empty() && !tables.contains(interface.index)) continue;
    tables[interface.index].update(default_gid(interface), interface.addresses);
  }
}

Json to_json(const GidTables& tables) {
  Json list = Json::array();
  for (const auto& [index, table] : tables) {
    Json gids = Json::array();
    for (const IpAddress& address : table.slots()) gids.push_back(text_of(address));
    while (!gids.empty() && gids.back() == "") gids.erase(gids.size() - 1);
    list.push_back({{"ifindex", index}, {"gids", std::move(gids)}});
  }
  return list;
}

GidTables gid_tables_from(const Json& list) {
  GidTables tables;
  if (!list.is_array()) return tables;
  for (const Json& entry : list) {
    const auto index = entry.is_object() ? entry.find("ifindex") : entry.end();
    const auto gids = entry.is_object() ? entry.find("gids") : entry.end();
    if (index == entry.end() || !index->is_number_unsigned() || gids == entry.end() || !gids->is_array()) continue;
    std::vector<IpAddress> slots;
    for (const Json& text : *gids) slots.push_back(address_from(text));
    tables.insert_or_assign(index->get<std::uint32_t>(), GidTable(slots));
  }
  return tables;
}

void adopt_common(GidTables& tables) {
  if (kept_apart) return;
  const auto answer =
      ask_at(kDaemonName, {{"query", "gids"}, {"have", nlohmann::json(to_json(tables))}}, kAnswerWithin);
  if (!answer) return;
  const auto gids = answer.value().find("gids");
  if (gids == answer.value().end()) return;
  for (auto& [index, table] : gid_tables_from(*gids)) tables.insert_or_assign(index, table);
}

void keep_gid_tables_apart() { kept_apart = true; }

}  // namespace brdma::io
