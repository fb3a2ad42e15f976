// rdma_netlink/answer.h - answers to a program's datagram, as the kernel's RDMA_NETLINK gives them. Pure: reads and
// writes bytes; facts come from a Source. Any bytes may come.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "rdma_netlink/protocol.h"
#include "rdma_netlink/source.h"

namespace brdma::provider::nldev {

struct Asker {
  std::uint32_t port = 0;   // its port id, in every answer
  bool is_admin = false;    // CAP_NET_ADMIN: may change, sees keys
  bool capped = false;      // NETLINK_CAP_ACK: acknowledgements quote the header alone
  bool explained = false;   // NETLINK_EXT_ACK: errors have a text
  std::uint64_t node = 0;   // number of the file behind the uverbs nodes (dev_t)
  std::uint32_t first = 0;  // a device's uverbs node has this number plus its interface's index
};

// The datagrams to receive, in order. Each has at most kDatagramMax bytes, which every reader has room for.
inline constexpr std::size_t kDatagramMax = 4096;
[[nodiscard]] std::vector<Bytes> answers(ConstBytes datagram, const Asker& asker, Source& source);

}  // namespace brdma::provider::nldev
