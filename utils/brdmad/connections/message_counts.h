// brdmad/connections/message_counts.h - counts connection managers' messages by kind and by local address, as the
// kernel does by port. A message that has been sent or received before, within the last kRecentMax, is a retry or a
// duplicate: it keeps its transaction. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <variant>

#include "base/ip_address.h"
#include "wire/cm/cm_messages.h"

namespace brdma::daemon {

// In the order of wire::CmMessage; names of the kernel's files.
inline constexpr std::array<std::string_view, 11> kMessageNames{"req",  "mra",      "rej",      "rep", "rtu", "dreq",
                                                                "drep", "sidr_req", "sidr_rep", "lap", "apr"};
static_assert(std::variant_size_v<wire::CmMessage> == kMessageNames.size());

class MessageCounts {
 public:
  static constexpr std::size_t kAddressesMax = 256, kRecentMax = 4096;
  enum Group : std::uint8_t { kReceived, kSent, kRetried, kDuplicate, kGroups };
  using Counts = std::array<std::array<std::uint64_t, kMessageNames.size()>, kGroups>;

  void received(const IpAddress& local, const IpAddress& remote, const wire::CmMad& mad) {
    count(kReceived, kDuplicate, local, remote, mad);
  }
  void sent(const IpAddress& local, const IpAddress& remote, const wire::CmMad& mad) {
    count(kSent, kRetried, local, remote, mad);
  }
  // Addresses beyond kAddressesMax are not counted.
  [[nodiscard]] const std::map<IpAddress, Counts>& by_address() const { return counts_; }

 private:
  using Seen = std::tuple<Group, IpAddress, IpAddress, std::uint64_t, std::size_t>;
  void count(Group group, Group again, const IpAddress& local, const IpAddress& remote, const wire::CmMad& mad);
  std::map<IpAddress, Counts> counts_;
  std::set<Seen> seen_;
  std::deque<std::set<Seen>::iterator> recent_;  // oldest first
};

}  // namespace brdma::daemon
