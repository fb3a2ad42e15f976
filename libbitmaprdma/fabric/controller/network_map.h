// fabric/controller/network_map.h - the controller's map of the network: switches, links from port to port, and the
// switch behind each prefix. From configuration and from switches' reports; it only grows. State of links:
// link_health.h; routes: controller.h. (A fabric::Topology is the plan of a lab, with hosts and options; utils/topology
// is its text.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/units.h"
#include "fabric/routing/forwarding_table.h"

namespace brdma::fabric::controller {

using SwitchIndex = std::uint32_t;
using LinkIndex = std::uint32_t;
using PrefixIndex = std::uint32_t;

// One direction: a cable is two of them.
struct Link {
  SwitchIndex from = 0, to = 0;
  std::string port;  // of `from`
  Bandwidth rate;    // 0: not known
  Duration delay;
};

struct LinkEnd {
  std::string_view switch_id, port;
};
struct LinkFacts {
  Bandwidth rate;
  Duration delay;
};

class NetworkMap {
 public:
  // Entries beyond these limits are refused.
  static constexpr std::size_t kSwitchesMax = 256, kLinksMax = 4096, kPrefixesMax = 1024;
  static constexpr std::size_t kAttachmentsMax = 16;  // switches that one prefix is behind

  // The index of the existing one, or of a new one. Nothing: no room, or no name.
  std::optional<SwitchIndex> add_switch(std::string_view id);
  // Both directions. False: no room, or a port leads elsewhere already. Known links get the new facts.
  bool add_link(const LinkEnd& a, const LinkEnd& b, const LinkFacts& facts);
  bool add_prefix(const Prefix& prefix, std::string_view switch_id);

  [[nodiscard]] std::optional<SwitchIndex> find_switch(std::string_view id) const;
  [[nodiscard]] std::optional<LinkIndex> find_link(SwitchIndex from, std::string_view port) const;
  [[nodiscard]] std::optional<PrefixIndex> find_prefix(const Prefix& prefix) const;
  // The longest prefix that covers the address.
  [[nodiscard]] std::optional<PrefixIndex> prefix_of(const IpAddress& address) const;

  [[nodiscard]] const std::vector<std::string>& switches() const { return switches_; }
  [[nodiscard]] const std::vector<Link>& links() const { return links_; }
  [[nodiscard]] static LinkIndex reverse(LinkIndex link) { return link ^ 1u; }
  [[nodiscard]] const std::vector<Prefix>& prefixes() const { return prefixes_; }
  [[nodiscard]] const std::vector<SwitchIndex>& attachments(PrefixIndex prefix) const { return attachments_[prefix]; }
  [[nodiscard]] bool attached(PrefixIndex prefix, SwitchIndex to) const;

 private:
  std::vector<std::string> switches_;
  std::map<std::string, SwitchIndex, std::less<>> switch_index_;
  std::vector<Link> links_;  // the two directions of a cable beside each other
  std::map<std::pair<SwitchIndex, std::string>, LinkIndex> link_index_;
  std::vector<Prefix> prefixes_;
  std::vector<std::vector<SwitchIndex>> attachments_;
};

}  // namespace brdma::fabric::controller
