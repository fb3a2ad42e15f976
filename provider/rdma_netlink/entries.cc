#include "rdma_netlink/entries.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "rdma_netlink/message.h"

namespace brdma::provider::nldev {
namespace {

using Json = nlohmann::ordered_json;

// enum ib_qp_type
constexpr std::uint8_t kReliable = 2, kUnreliable = 3, kDatagram = 4, kXrcInitiator = 9, kXrcTarget = 10, kOther = 255;
constexpr std::size_t kListedMax = 200;  // queue pairs of one SRQ

std::uint32_t number(const Json& row, const char* key) { return row.at(key).get<std::uint32_t>(); }
std::uint32_t number_or(const Json& row, const char* key, std::uint32_t otherwise) {
  return row.contains(key) ? number(row, key) : otherwise;
}

// The place of a word in a list; `otherwise` where it is none of them.
template <std::size_t n>
std::uint8_t place_of(const Json& word, const std::array<std::string_view, n>& words, std::uint8_t otherwise) {
  const auto found = std::find(words.begin(), words.end(), word.get_ref<const std::string&>());
  return found == words.end() ? otherwise : static_cast<std::uint8_t>(found - words.begin());
}

std::uint8_t type_of(const Json& word) {
  constexpr std::array<std::string_view, 5> kTypes{"RC", "UC", "UD", "XRC_INI", "XRC_TGT"};
  constexpr std::array<std::uint8_t, 5> kNumbers{kReliable, kUnreliable, kDatagram, kXrcInitiator, kXrcTarget};
  const std::uint8_t place = place_of(word, kTypes, kOther);
  return place == kOther ? kOther : kNumbers[place];
}

// PSNs of other users' programs are hidden; the attribute must be there.
void put_queue_pair(Writer& to, const Json& row) {
  constexpr std::array<std::string_view, 7> kStates{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
  const std::uint8_t type = type_of(row.at("type"));
  const bool connected = type == kReliable || type == kUnreliable;
  to.u32(Attribute::kPdn, number(row, "pdn"));
  if (connected) {
    to.u32(Attribute::kRemoteQpn, number(row, "rqpn"));
    to.u32(Attribute::kReceivePsn, number_or(row, "rq-psn", 0));
  }
  to.u32(Attribute::kSendPsn, number_or(row, "sq-psn", 0));
  if (connected) to.u8(Attribute::kPathMigration, 0);  // IB_MIG_MIGRATED
  to.u8(Attribute::kType, type);
  to.u8(Attribute::kState, place_of(row.at("state"), kStates, 0));
}

void put_address(Writer& to, const Json& row) {
  std::array<std::byte, sizeof(sockaddr_storage)> storage{};
  const auto& text = row.at("src-addr").get_ref<const std::string&>();
  const auto port = htons(row.at("src-port").get<std::uint16_t>());
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = port;
    std::memcpy(storage.data(), &v4, sizeof v4);
  } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = port;
    std::memcpy(storage.data(), &v6, sizeof v6);
  } else {
    return;
  }
  to.raw(Attribute::kSourceAddress, storage);
}

void put_cm_id(Writer& to, const Json& row, std::uint32_t place) {
  constexpr std::uint32_t kIpoib = 0x0002, kTcp = 0x0106, kUdp = 0x0111, kIb = 0x013F;
  constexpr std::array<std::string_view, 4> kSpaces{"TCP", "UDP", "IB", "IPOIB"};
  constexpr std::array kNumbers{kTcp, kUdp, kIb, kIpoib};
  constexpr std::uint8_t kBound = 7, kListening = 8;  // of the kernel's connection states
  to.u32(Attribute::kPortSpace, kNumbers[place_of(row.at("ps"), kSpaces, 0)]);
  to.u8(Attribute::kState, row.at("state") == "LISTEN" ? kListening : kBound);
  put_address(to, row);
  to.u32(Attribute::kCmIdn, place);
}

void put_completion_queue(Writer& to, const Json& row, const Json& owner) {
  to.u32(Attribute::kCqe, number(row, "cqe"));
  to.u64(Attribute::kUseCount, number(row, "users"));
  to.u8(Attribute::kAdaptiveModeration, 0);
  to.u32(Attribute::kCqn, number(row, "cqn"));
  to.u32(Attribute::kCtxn, number(owner, "slot"));
}

void put_memory_region(Writer& to, const Json& row, std::uint32_t mrn, bool keys) {
  if (keys && row.contains("rkey") && row.contains("lkey")) {
    to.u32(Attribute::kRkey, number(row, "rkey"));
    to.u32(Attribute::kLkey, number(row, "lkey"));
  }
  to.u64(Attribute::kRegionLength, row.at("mrlen").get<std::uint64_t>());
  to.u32(Attribute::kMrn, mrn);
  to.u32(Attribute::kPdn, number(row, "pdn"));
}

void put_protection_domain(Writer& to, const Json& row, const Json& owner) {
  to.u64(Attribute::kUseCount, number(row, "users"));
  to.u32(Attribute::kPdn, number(row, "pdn"));
  to.u32(Attribute::kCtxn, number(owner, "slot"));
}

void put_shared_receive_queue(Writer& to, const Json& row) {
  to.u32(Attribute::kSrqn, number(row, "srqn"));
  to.u8(Attribute::kType, 0);  // IB_SRQT_BASIC
  to.u32(Attribute::kPdn, number(row, "pdn"));
  Writer list;
  std::size_t listed = 0;
  for (const Json& qpn : row.at("lqpn")) {
    if (listed++ == kListedMax) break;
    Writer one;
    one.u32(Attribute::kLocalQpn, qpn.get<std::uint32_t>());
    list.nest(Attribute::kQueuePairEntry, one.bytes());
  }
  to.nest(Attribute::kQueuePair, list.bytes(), /*flagged=*/true);
}

// The key by which the kernel, and `rdma`, name one object.
std::uint32_t number_of(Resource kind, const Json& row, const Json& owner, std::uint32_t place) {
  switch (kind) {
    case Resource::kQueuePair:
      return number(row, "lqpn");
    case Resource::kCompletionQueue:
      return number(row, "cqn");
    case Resource::kProtectionDomain:
      return number(row, "pdn");
    case Resource::kContext:
      return number(owner, "slot");
    case Resource::kSharedReceiveQueue:
      return number(row, "srqn");
    case Resource::kMemoryRegion:
    case Resource::kCmId:
      break;
  }
  return place;
}

}  // namespace

Entry entry_of(Resource kind, const Json& row, const Json& owner, std::uint32_t place, bool keys) {
  const std::uint32_t own = number_of(kind, row, owner, place);
  Writer to;
  switch (kind) {
    case Resource::kQueuePair:
      to.u32(Attribute::kPortIndex, kPorts);
      to.u32(Attribute::kLocalQpn, own);
      put_queue_pair(to, row);
      break;
    case Resource::kCmId:
      to.u32(Attribute::kPortIndex, kPorts);
      put_cm_id(to, row, own);
      break;
    case Resource::kCompletionQueue:
      put_completion_queue(to, row, owner);
      break;
    case Resource::kMemoryRegion:
      put_memory_region(to, row, own, keys);
      break;
    case Resource::kProtectionDomain:
      put_protection_domain(to, row, owner);
      break;
    case Resource::kContext:
      to.u32(Attribute::kCtxn, own);
      break;
    case Resource::kSharedReceiveQueue:
      put_shared_receive_queue(to, row);
      break;
  }
  to.u32(Attribute::kPid, number(owner, "pid"));
  return {own, to.bytes()};
}

}  // namespace brdma::provider::nldev
