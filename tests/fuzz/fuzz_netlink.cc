// Input: the first byte chooses. Even: a program's datagram to RDMA_NETLINK, by an administrator or (bit 1) another
// user. Odd: a row of a program's answer to brdmad, as JSON, of which kind the other bits say. Invariants:
//   - each answer is one message of the length that its header says, in at most kDatagramMax bytes, whose attributes,
//   and those of nests, end where they should;
//   - a request has at most one acknowledgement or end;
//   - keys of regions are given to administrators alone;
//   - a row becomes an entry or an exception.
#include <linux/netlink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "rdma_netlink/answer.h"
#include "rdma_netlink/entries.h"

namespace {

using namespace brdma;                   // a test's entry point, no header
using namespace brdma::provider::nldev;  // likewise
using Json = nlohmann::ordered_json;

class Facts final : public Source {
 public:
  explicit Facts(bool admin) : admin_(admin) {}
  std::vector<DeviceInfo> devices() override {
    DeviceInfo device;
    device.name = "brdma_eth0";
    device.netdev = "eth0";
    device.ifindex = 7;
    return {device, device};
  }
  Result<std::vector<Entry>, int> entries(Resource kind, const DeviceInfo&, bool keys) override {
    BRDMA_CHECK(!keys || admin_);
    const Json row = {{"lqpn", 5},      {"type", "RC"},
                      {"state", "RTS"}, {"pdn", 1},
                      {"rqpn", 2},      {"cqe", 3},
                      {"users", 1},     {"cqn", 0},
                      {"rkey", 9},      {"lkey", 9},
                      {"mrlen", 4},     {"srqn", 0},
                      {"ps", "TCP"},    {"src-addr", "10.0.0.1"},
                      {"src-port", 4}};
    Json whole = row;
    if (kind == Resource::kSharedReceiveQueue) whole["lqpn"] = {1, 2};
    return std::vector<Entry>(100, entry_of(kind, whole, {{"pid", 1}, {"slot", 2}}, 0, keys));
  }
  Result<std::array<std::uint64_t, kResources>, int> summary(const DeviceInfo&) override {
    return std::array<std::uint64_t, kResources>{};
  }
  Result<Counters, int> counters(const DeviceInfo&) override { return Counters{{"sent_pkts", 1}}; }

 private:
  bool admin_;
};

void check_attributes(ConstBytes bytes) {
  while (!bytes.empty()) {
    std::uint16_t length = 0;
    BRDMA_CHECK(bytes.size() >= 4);
    std::memcpy(&length, bytes.data(), sizeof length);
    BRDMA_CHECK(length >= 4 && length <= bytes.size());
    bytes = bytes.subspan(std::min<std::size_t>((length + 3u) / 4 * 4, bytes.size()));
  }
}

void check_answers(ConstBytes datagram, bool admin) {
  Facts facts(admin);
  std::size_t ends = 0;
  for (const Bytes& bytes : answers(datagram, {.port = 3, .is_admin = admin}, facts)) {
    nlmsghdr header{};
    BRDMA_CHECK(bytes.size() >= sizeof header && bytes.size() <= kDatagramMax);
    std::memcpy(&header, bytes.data(), sizeof header);
    BRDMA_CHECK(header.nlmsg_len == bytes.size() && header.nlmsg_pid == 3);
    const bool is_end = header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR;
    if (is_end) ++ends;
    if (!is_end) check_attributes(ConstBytes{bytes}.subspan(sizeof header));
  }
  BRDMA_CHECK(ends <= datagram.size() / sizeof(nlmsghdr));
}

void check_row(std::string_view text, Resource kind) {
  const Json row = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (row.is_discarded()) return;
  try {
    const Entry entry = entry_of(kind, row, {{"pid", 1}, {"slot", 2}}, 0, true);
    check_attributes(entry.attributes);
    BRDMA_CHECK(entry.attributes.size() < kDatagramMax);
  } catch (const Json::exception&) {
    return;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ConstBytes rest = std::as_bytes(std::span{data + 1, size - 1});
  if (data[0] % 2 == 0) {
    check_answers(rest, (data[0] & 2) == 0);
  } else {
    check_row({reinterpret_cast<const char*>(rest.data()), rest.size()},
              static_cast<Resource>(data[0] / 2 % kResources));
  }
  return 0;
}
