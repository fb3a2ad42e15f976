// rdma_netlink/protocol.h - numbers of RDMA_NETLINK's device client, as the kernel's uapi header rdma/rdma_netlink.h
// has them. Facts: older headers lack the newer ones. Integers of attributes are in host order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace brdma::provider::nldev {

using Bytes = std::vector<std::byte>;

inline constexpr unsigned kClient = 5;  // RDMA_NL_NLDEV: nlmsg_type is (client << 10) + operation
inline constexpr unsigned kClientShift = 10;
inline constexpr std::uint16_t kTypeBase = kClient << kClientShift;
inline constexpr std::uint32_t kPorts = 1;        // of a device; the only one has number 1
inline constexpr std::uint16_t kNested = 0x8000;  // NLA_F_NESTED; the oldest nests lack it

enum class Operation : std::uint16_t {
  kGet = 1,
  kSet = 2,
  kNewLink = 3,
  kDeleteLink = 4,
  kPortGet = 5,
  kSystemGet = 6,
  kSystemSet = 7,
  kSummary = 9,
  kQueuePairs = 10,
  kCmIds = 11,
  kCompletionQueues = 12,
  kMemoryRegions = 13,
  kProtectionDomains = 14,
  kCharacterDevice = 15,
  kStatisticSet = 16,
  kStatisticGet = 17,
  kStatisticDelete = 18,
  kContexts = 22,
  kSharedReceiveQueues = 23,
  kStatisticStatus = 24,
  kNewDevice = 26,
  kDeleteDevice = 27,
};

enum class Attribute : std::uint16_t {
  kDeviceIndex = 1,
  kDeviceName = 2,
  kPortIndex = 3,
  kCapabilities = 4,
  kFirmware = 5,
  kNodeGuid = 6,
  kSystemGuid = 7,
  kPortState = 12,
  kPortPhysicalState = 13,
  kNodeType = 14,
  kSummary = 15,
  kSummaryEntry = 16,
  kSummaryName = 17,
  kSummaryCurrent = 18,
  kQueuePair = 19,
  kQueuePairEntry = 20,
  kLocalQpn = 21,
  kRemoteQpn = 22,
  kReceivePsn = 23,
  kSendPsn = 24,
  kPathMigration = 25,
  kType = 26,
  kState = 27,
  kPid = 28,
  kCmId = 30,
  kCmIdEntry = 31,
  kPortSpace = 32,
  kSourceAddress = 33,
  kCompletionQueue = 35,
  kCompletionQueueEntry = 36,
  kCqe = 37,
  kUseCount = 38,
  kMemoryRegion = 40,
  kMemoryRegionEntry = 41,
  kRkey = 42,
  kLkey = 43,
  kRegionLength = 45,
  kProtectionDomain = 46,
  kProtectionDomainEntry = 47,
  kInterfaceIndex = 50,
  kInterfaceName = 51,
  kPdn = 60,
  kCqn = 61,
  kMrn = 62,
  kCmIdn = 63,
  kCtxn = 64,
  kLinkType = 65,
  kNamespaceMode = 66,
  kProtocol = 67,
  kNamespaceFd = 68,
  kNodeKind = 69,  // of which library a character device is asked: "uverbs", "rdma_cm"
  kNodeName = 70,
  kNodeAbi = 71,
  kNodeNumber = 72,
  kDriverId = 73,
  kStatisticMode = 74,
  kStatisticResource = 75,
  kCounters = 80,
  kCounterEntry = 81,
  kCounterName = 82,
  kCounterValue = 83,
  kAdaptiveModeration = 84,
  kContext = 86,
  kContextEntry = 87,
  kSharedReceiveQueue = 88,
  kSharedReceiveQueueEntry = 89,
  kSrqn = 90,
  kCopyOnFork = 93,
  kCounterIndex = 94,
  kPrivilegedQkeyMode = 96,
};

}  // namespace brdma::provider::nldev
