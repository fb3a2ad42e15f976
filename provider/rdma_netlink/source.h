// rdma_netlink/source.h - what answers are made of: devices, their programs' objects, counters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "bitmaprdma/context.h"
#include "rdma_netlink/protocol.h"

namespace brdma::provider::nldev {

// In the order of the kernel's summary.
enum class Resource : std::uint8_t {
  kProtectionDomain,
  kCompletionQueue,
  kQueuePair,
  kCmId,
  kMemoryRegion,
  kContext,
  kSharedReceiveQueue,
};
inline constexpr std::size_t kResources = 7;

// An object: its number, and its attributes, encoded.
struct Entry {
  std::uint32_t number = 0;
  Bytes attributes;
};

using Counters = std::vector<std::pair<std::string_view, std::uint64_t>>;

// Errors are errno values. Where no program uses the device, nothing is an error: there are no objects.
class Source {
 public:
  virtual ~Source() = default;
  // In the order of their indices, which begin at 0.
  [[nodiscard]] virtual std::vector<DeviceInfo> devices() = 0;
  // `keys`: with the keys of memory regions.
  [[nodiscard]] virtual Result<std::vector<Entry>, int> entries(Resource kind, const DeviceInfo& device, bool keys) = 0;
  [[nodiscard]] virtual Result<std::array<std::uint64_t, kResources>, int> summary(const DeviceInfo& device) = 0;
  [[nodiscard]] virtual Result<Counters, int> counters(const DeviceInfo& device) = 0;
};

}  // namespace brdma::provider::nldev
