// RDMA_NETLINK's answers, compared with those of a kernel (recorded.h), and requests that are wrong.
#include "rdma_netlink/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/netlink.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "device_files/counter_files.h"
#include "rdma_netlink/entries.h"
#include "rdma_netlink/message.h"
#include "recorded.h"

namespace brdma::provider::nldev {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre, testing::IsEmpty, testing::SizeIs;
namespace recorded = test::recorded;

constexpr std::uint16_t kGetFlags = NLM_F_REQUEST | NLM_F_ACK, kDumpFlags = kGetFlags | NLM_F_DUMP;
constexpr std::uint32_t kSequence = 77, kPort = 4242;

Bytes from_hexadecimal(std::string_view text) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    std::uint8_t value = 0;
    std::from_chars(text.data() + i, text.data() + i + 2, value, 16);
    bytes.push_back(std::byte{value});
  }
  return bytes;
}

// What a kernel with one Soft-RoCE device knows.
class Facts final : public Source {
 public:
  std::vector<DeviceInfo> devices() override {
    DeviceInfo device;
    device.name = "rxe0";
    device.netdev = "lo";
    device.ifindex = 1;
    device.guid = 0x505400fffe990002;
    DeviceInfo other = device;
    other.name = "rxe1";
    return {device, other};
  }
  Result<std::vector<Entry>, int> entries(Resource kind, const DeviceInfo&, bool keys) override {
    asked_for_keys = keys;
    if (error != 0) return error;
    std::vector<Entry> all;
    for (std::uint32_t i = 0; i < objects; ++i) all.push_back(entry_of(kind, row, owner, i, keys));
    return all;
  }
  Result<std::array<std::uint64_t, kResources>, int> summary(const DeviceInfo&) override { return counts; }
  Result<Counters, int> counters(const DeviceInfo&) override {
    Counters all;
    for (const auto& counter : preload::kHardwareCounters) all.emplace_back(counter.name, 0);
    return all;
  }

  std::uint32_t objects = 1;
  int error = 0;
  bool asked_for_keys = false;
  Json row, owner = {{"pid", 5}, {"slot", 3}};
  std::array<std::uint64_t, kResources> counts{1, 1, 1, 0, 0, 0, 0};
};

Bytes request(Operation operation, std::uint16_t flags, const Writer& attributes) {
  const auto type = static_cast<std::uint16_t>(kTypeBase + static_cast<std::uint16_t>(operation));
  return message({0, type, flags, kSequence, 0}, attributes.bytes());
}
Writer of_device(std::uint32_t index, bool with_port = false) {
  Writer attributes;
  attributes.u32(Attribute::kDeviceIndex, index);
  if (with_port) attributes.u32(Attribute::kPortIndex, kPorts);
  return attributes;
}

struct Answer {
  nlmsghdr header{};
  Bytes payload;
  [[nodiscard]] int error() const {
    int value = 0;
    if (payload.size() >= sizeof value) std::memcpy(&value, payload.data(), sizeof value);
    return -value;
  }
};

class Nldev : public testing::Test {
 protected:
  // Each datagram is one message, of the length that its header says, to the asker and with its sequence number.
  std::vector<Answer> ask(ConstBytes datagram) {
    std::vector<Answer> all;
    for (const Bytes& bytes : answers(datagram, asker_, facts_)) {
      Answer& answer = all.emplace_back();
      EXPECT_GE(bytes.size(), sizeof answer.header);
      EXPECT_LE(bytes.size(), kDatagramMax);
      std::memcpy(&answer.header, bytes.data(), sizeof answer.header);
      EXPECT_EQ(answer.header.nlmsg_len, bytes.size());
      EXPECT_EQ(answer.header.nlmsg_seq, kSequence);
      EXPECT_EQ(answer.header.nlmsg_pid, kPort);
      answer.payload.assign(bytes.begin() + sizeof answer.header, bytes.end());
    }
    return all;
  }
  std::vector<Answer> ask(Operation operation, std::uint16_t flags, const Writer& attributes) {
    return ask(request(operation, flags, attributes));
  }
  // The answer and its acknowledgement.
  Bytes get(Operation operation, const Writer& attributes) {
    const auto all = ask(operation, kGetFlags, attributes);
    if (all.size() != 2 || all[1].header.nlmsg_type != NLMSG_ERROR || all[1].error() != 0) return {};
    EXPECT_EQ(all[0].header.nlmsg_flags, 0);
    EXPECT_EQ(all[1].header.nlmsg_flags, NLM_F_CAPPED);
    EXPECT_EQ(all[1].header.nlmsg_len, 36u);
    return all[0].payload;
  }
  int refusal(Operation operation, const Writer& attributes, std::uint16_t flags = kGetFlags) {
    const auto all = ask(operation, flags, attributes);
    return all.size() == 1 && all[0].header.nlmsg_type == NLMSG_ERROR ? all[0].error() : -1;
  }

  Asker asker_{.port = kPort, .is_admin = true, .capped = true};
  Facts facts_;
};

// "type:length", of attributes beside each other.
std::vector<std::string> shape(ConstBytes bytes) {
  std::vector<std::string> all;
  while (bytes.size() >= 4) {
    std::uint16_t length = 0, type = 0;
    std::memcpy(&length, bytes.data(), 2);
    std::memcpy(&type, bytes.data() + 2, 2);
    if (length < 4 || length > bytes.size()) return {"malformed"};
    all.push_back(std::to_string(type) + ":" + std::to_string(length));
    bytes = bytes.subspan(std::min<std::size_t>((length + 3u) / 4 * 4, bytes.size()));
  }
  return all;
}
std::vector<std::string> without(std::vector<std::string> all, std::string_view begin) {
  std::erase_if(all, [begin](const std::string& each) { return each.starts_with(begin); });
  return all;
}

TEST_F(Nldev, DeviceHasTheKernelsAttributes) {
  const auto ours = shape(get(Operation::kGet, of_device(0)));
  EXPECT_EQ(without(ours, "5:"), shape(from_hexadecimal(recorded::kDevice)));  // 5: firmware, which Soft-RoCE has none
}

TEST_F(Nldev, PortHasTheKernelsAttributes) {
  auto kernels = shape(from_hexadecimal(recorded::kPort));
  auto ours = shape(get(Operation::kPortGet, of_device(0, true)));
  EXPECT_EQ(without(ours, "51:"), without(kernels, "51:"));  // 51: the name of the interface
  EXPECT_THAT(ours, SizeIs(kernels.size()));
}

TEST_F(Nldev, SystemHasTheKernelsAttributes) {
  EXPECT_EQ(shape(get(Operation::kSystemGet, {})), shape(from_hexadecimal(recorded::kSystem)));
}

TEST_F(Nldev, SummaryIsTheKernelsByteByByte) {
  EXPECT_EQ(get(Operation::kSummary, of_device(0)), from_hexadecimal(recorded::kSummary));
}

TEST_F(Nldev, CountersAreTheKernelsByteByByte) {
  EXPECT_EQ(get(Operation::kStatisticGet, of_device(0, true)), from_hexadecimal(recorded::kCounters));
}

// The object of a program has a PID and the numbers of its other objects; the kernel's own have a name (29).
TEST_F(Nldev, TablesHaveTheKernelsAttributes) {
  struct Case {
    Operation operation;
    std::string_view kernels;
    Json row;
    std::vector<std::string> ours;  // in place of 29
  };
  const Case cases[] = {{Operation::kQueuePairs,
                         recorded::kQueuePairs,
                         {{"lqpn", 1}, {"type", "UD"}, {"state", "RTS"}, {"pdn", 4}},
                         {"60:8", "28:8"}},
                        {Operation::kCompletionQueues,
                         recorded::kCompletionQueues,
                         {{"cqe", 9}, {"users", 2}, {"cqn", 0}},
                         {"64:8", "28:8"}}};
  for (const Case& each : cases) {
    facts_.row = each.row;
    const auto all = ask(each.operation, kDumpFlags, of_device(0));
    ASSERT_THAT(all, SizeIs(2));
    EXPECT_EQ(all[0].header.nlmsg_flags, NLM_F_MULTI);
    EXPECT_EQ(all[1].header.nlmsg_type, NLMSG_DONE);
    EXPECT_EQ(all[1].header.nlmsg_len, 20u);
    const auto inside = [](const Bytes& payload) {
      const ConstBytes table = ConstBytes{payload}.subspan(8 + 12);  // DEV_INDEX, DEV_NAME
      return shape(table.subspan(8));                                // the table's head and the entry's
    };
    auto ours = inside(all[0].payload);
    auto kernels = without(inside(from_hexadecimal(each.kernels)), "29:");
    kernels = without(kernels, "39:");  // POLL_CTX is not of programs
    kernels.insert(kernels.end(), each.ours.begin(), each.ours.end());
    std::ranges::sort(ours);
    std::ranges::sort(kernels);
    EXPECT_EQ(ours, kernels);
  }
}

TEST_F(Nldev, EmptyTableIsDoneAlone) {
  facts_.objects = 0;
  const auto all = ask(Operation::kMemoryRegions, kDumpFlags, of_device(0));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].header.nlmsg_type, NLMSG_DONE);
}

TEST_F(Nldev, ManyObjectsAreManyDatagrams) {
  facts_.objects = 10'000;
  facts_.row = {{"mrlen", 4096}, {"pdn", 0}};
  const auto all = ask(Operation::kMemoryRegions, kDumpFlags, of_device(0));
  EXPECT_GT(all.size(), 100u);
  EXPECT_EQ(all.back().header.nlmsg_type, NLMSG_DONE);
}

TEST_F(Nldev, KeysAreForAdministrators) {
  facts_.row = {{"mrlen", 4096}, {"pdn", 0}, {"rkey", 1}, {"lkey", 1}};
  const auto with = ask(Operation::kMemoryRegions, kDumpFlags, of_device(0))[0].payload.size();
  EXPECT_TRUE(facts_.asked_for_keys);
  asker_.is_admin = false;
  const auto without_keys = ask(Operation::kMemoryRegions, kDumpFlags, of_device(0))[0].payload.size();
  EXPECT_FALSE(facts_.asked_for_keys);
  EXPECT_EQ(with, without_keys + 16);
}

TEST_F(Nldev, OneObjectByItsNumber) {
  facts_.row = {{"lqpn", 17}, {"type", "UD"}, {"state", "RTS"}, {"pdn", 4}};
  Writer named = of_device(0, true);
  named.u32(Attribute::kLocalQpn, 17);
  EXPECT_THAT(get(Operation::kQueuePairs, named), testing::Not(IsEmpty()));
  Writer other = of_device(0, true);
  other.u32(Attribute::kLocalQpn, 18);
  EXPECT_EQ(refusal(Operation::kQueuePairs, other), ENOENT);
  EXPECT_EQ(refusal(Operation::kQueuePairs, of_device(0, true)), EINVAL);
  Writer portless = of_device(0);
  portless.u32(Attribute::kLocalQpn, 17);
  EXPECT_EQ(refusal(Operation::kQueuePairs, portless), EINVAL);
}

TEST_F(Nldev, ConnectedQueuePairsHaveAPeer) {
  const Json unconnected = {{"lqpn", 1}, {"type", "UD"}, {"state", "RTS"}, {"pdn", 4}};
  const Json connected = {{"lqpn", 1}, {"type", "RC"}, {"state", "RTS"}, {"pdn", 4}, {"rqpn", 9}};
  EXPECT_THAT(shape(entry_of(Resource::kQueuePair, unconnected, facts_.owner, 0, true).attributes),
              ElementsAre("3:8", "21:8", "60:8", "24:8", "26:5", "27:5", "28:8"));
  EXPECT_THAT(shape(entry_of(Resource::kQueuePair, connected, facts_.owner, 0, true).attributes),
              ElementsAre("3:8", "21:8", "60:8", "22:8", "23:8", "24:8", "25:5", "26:5", "27:5", "28:8"));
}

TEST_F(Nldev, BothHalvesOfXrcHaveTheirTypes) {
  for (const auto& [name, number] : {std::pair{"XRC_INI", 9}, std::pair{"XRC_TGT", 10}}) {
    const Json row = {{"lqpn", 1}, {"type", name}, {"state", "RTS"}, {"pdn", 4}};
    const auto bytes = entry_of(Resource::kQueuePair, row, facts_.owner, 0, true).attributes;
    const std::array<std::byte, 5> type{std::byte{5}, std::byte{0}, std::byte{26}, std::byte{0},
                                        static_cast<std::byte>(number)};
    EXPECT_FALSE(std::ranges::search(bytes, type).empty()) << name;
  }
}

TEST_F(Nldev, ErrorOfTheSourceIsTheAnswer) {
  facts_.error = ETIMEDOUT;
  EXPECT_EQ(refusal(Operation::kQueuePairs, of_device(0), kDumpFlags), ETIMEDOUT);
}

TEST_F(Nldev, ChangesNeedTheRight) {
  asker_.is_admin = false;
  for (const Operation operation : {Operation::kSet, Operation::kNewLink, Operation::kDeleteLink, Operation::kSystemSet,
                                    Operation::kStatisticSet, Operation::kNewDevice}) {
    EXPECT_EQ(refusal(operation, of_device(0)), EPERM);
  }
}

TEST_F(Nldev, ChangesHaveTheKernelsErrors) {
  const auto renamed = [this](std::string_view name) {
    Writer attributes = of_device(0);
    attributes.text(Attribute::kDeviceName, name);
    return refusal(Operation::kSet, attributes);
  };
  EXPECT_EQ(renamed("rxe0"), 0);
  EXPECT_EQ(renamed("rxe1"), EEXIST);
  EXPECT_EQ(renamed("other"), EOPNOTSUPP);
  EXPECT_EQ(renamed(""), EINVAL);
  const auto added = [this](std::string_view type, std::string_view netdev) {
    Writer attributes;
    attributes.text(Attribute::kDeviceName, "new");
    attributes.text(Attribute::kLinkType, type);
    attributes.text(Attribute::kInterfaceName, netdev);
    return refusal(Operation::kNewLink, attributes);
  };
  EXPECT_EQ(added("brdma", "lo"), EEXIST);
  EXPECT_EQ(added("rxe", "lo"), EINVAL);
  EXPECT_EQ(added("brdma", "no_such"), ENODEV);
  EXPECT_EQ(refusal(Operation::kNewLink, of_device(0)), EINVAL);
  EXPECT_EQ(refusal(Operation::kDeleteLink, of_device(0)), EINVAL);
}

TEST_F(Nldev, ErrorsQuoteTheRequestAndExplain) {
  asker_.capped = false;
  asker_.explained = true;
  const auto all = ask(Operation::kDeleteLink, kGetFlags, of_device(0));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].header.nlmsg_flags, NLM_F_ACK_TLVS);
  const ConstBytes quoted = ConstBytes{all[0].payload}.subspan(4, 24);
  EXPECT_EQ(Bytes(quoted.begin(), quoted.end()), request(Operation::kDeleteLink, kGetFlags, of_device(0)));
  EXPECT_THAT(shape(ConstBytes{all[0].payload}.subspan(28)), SizeIs(1));
}

TEST_F(Nldev, WrongRequestsAreRefused) {
  EXPECT_EQ(refusal(Operation::kGet, {}), EINVAL);
  EXPECT_EQ(refusal(Operation::kGet, of_device(2)), EINVAL);
  EXPECT_EQ(refusal(Operation::kPortGet, of_device(0)), EINVAL);
  Writer second_port = of_device(0);
  second_port.u32(Attribute::kPortIndex, 2);
  EXPECT_EQ(refusal(Operation::kPortGet, second_port), EINVAL);
  EXPECT_EQ(refusal(Operation::kQueuePairs, second_port, kDumpFlags), EINVAL);
  EXPECT_EQ(refusal(static_cast<Operation>(0), {}), EINVAL);
  EXPECT_EQ(refusal(static_cast<Operation>(99), {}), EINVAL);
  EXPECT_EQ(refusal(Operation::kSystemGet, {}, kDumpFlags), EINVAL);
  Writer short_number;
  short_number.raw(Attribute::kDeviceIndex, Bytes(2));
  EXPECT_EQ(refusal(Operation::kGet, short_number), EINVAL);
  Writer endless = of_device(0);
  endless.raw(Attribute::kDeviceName, Bytes(8, std::byte{'x'}));
  EXPECT_EQ(refusal(Operation::kSet, endless), EINVAL);
}

TEST_F(Nldev, OtherClientsAreRefused) {
  const auto all = ask(message({0, 2 << kClientShift, kGetFlags, kSequence, 0}, {}));
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].error(), EINVAL);
}

TEST_F(Nldev, MessagesThatAreNoRequestsAreOnlyAcknowledged) {
  const Writer none;
  EXPECT_THAT(ask(Operation::kGet, 0, none), IsEmpty());
  const auto all = ask(Operation::kGet, NLM_F_ACK, none);
  ASSERT_THAT(all, SizeIs(1));
  EXPECT_EQ(all[0].error(), 0);
  EXPECT_THAT(ask(message({0, NLMSG_NOOP, NLM_F_REQUEST, kSequence, 0}, {})), IsEmpty());
}

// libnl's users switch acknowledgements off.
TEST_F(Nldev, GetWithoutAcknowledgementIsOneDatagram) {
  EXPECT_THAT(ask(Operation::kSystemGet, NLM_F_REQUEST, {}), SizeIs(1));
}

TEST_F(Nldev, SeveralRequestsInOneDatagram) {
  Bytes two = request(Operation::kSystemGet, kGetFlags, {});
  const Bytes second = request(Operation::kGet, kGetFlags, of_device(0));
  two.insert(two.end(), second.begin(), second.end());
  EXPECT_THAT(ask(two), SizeIs(4));
}

TEST_F(Nldev, TruncatedDatagramsAreIgnored) {
  const Bytes whole = request(Operation::kGet, kGetFlags, of_device(0));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(ask(ConstBytes{whole}.first(size)), IsEmpty()) << size;
  }
}

TEST_F(Nldev, NodesOfDevices) {
  asker_.first = 1024;
  Writer uverbs = of_device(0);
  uverbs.text(Attribute::kNodeKind, "uverbs");
  EXPECT_THAT(shape(get(Operation::kCharacterDevice, uverbs)), ElementsAre("72:12", "71:12", "70:15", "73:8"));
  Writer rdma_cm;
  rdma_cm.text(Attribute::kNodeKind, "rdma_cm");
  EXPECT_THAT(shape(get(Operation::kCharacterDevice, rdma_cm)), ElementsAre("72:12", "71:12", "70:12"));
  Writer umad = of_device(0);
  umad.text(Attribute::kNodeKind, "umad");
  EXPECT_EQ(refusal(Operation::kCharacterDevice, umad), EOPNOTSUPP);
}

// Any program may have written the row.
TEST(NldevEntries, RowsOfAnotherFormThrow) {
  const Json owner = {{"pid", 5}, {"slot", 3}};
  for (const char* row : {"{}", "[]", "null", R"({"lqpn":"x"})", R"({"lqpn":1,"type":7,"state":"RTS","pdn":1})"}) {
    EXPECT_THROW((void)entry_of(Resource::kQueuePair, Json::parse(row), owner, 0, true), Json::exception) << row;
  }
}

TEST(NldevEntries, SharedQueueListsItsQueuePairs) {
  const Json owner = {{"pid", 5}, {"slot", 3}};
  const Json row = {{"srqn", 2}, {"pdn", 1}, {"lqpn", {4, 5}}};
  const Entry entry = entry_of(Resource::kSharedReceiveQueue, row, owner, 0, true);
  EXPECT_EQ(entry.number, 2u);
  EXPECT_THAT(shape(entry.attributes), ElementsAre("90:8", "26:5", "60:8", "32787:28", "28:8"));
}

}  // namespace
}  // namespace brdma::provider::nldev
