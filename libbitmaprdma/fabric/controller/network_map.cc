#include "fabric/controller/network_map.h"

#include <algorithm>

namespace brdma::fabric::controller {

std::optional<SwitchIndex> NetworkMap::add_switch(std::string_view id) {
  if (const auto known = find_switch(id)) return known;
  if (id.empty() || switches_.size() == kSwitchesMax) return std::nullopt;
  const auto index = static_cast<SwitchIndex>(switches_.size());
  switches_.emplace_back(id);
  switch_index_.emplace(id, index);
  return index;
}

bool NetworkMap::add_link(const LinkEnd& a, const LinkEnd& b, const LinkFacts& facts) {
  if (a.port.empty() || b.port.empty()) return false;
  const auto from = add_switch(a.switch_id), to = add_switch(b.switch_id);
  if (!from || !to || *from == *to) return false;
  const auto there = find_link(*from, a.port), back = find_link(*to, b.port);
  if (there || back) {
    if (!there || !back || reverse(*there) != *back) return false;
  } else if (links_.size() + 2 > kLinksMax) {
    return false;
  } else {
    const auto index = static_cast<LinkIndex>(links_.size());
    links_.push_back({*from, *to, std::string{a.port}, {}, {}});
    links_.push_back({*to, *from, std::string{b.port}, {}, {}});
    link_index_[{*from, std::string{a.port}}] = index;
    link_index_[{*to, std::string{b.port}}] = index + 1;
  }
  for (const LinkIndex link : {*find_link(*from, a.port), *find_link(*to, b.port)}) {
    links_[link].rate = facts.rate;
    links_[link].delay = facts.delay;
  }
  return true;
}

bool NetworkMap::add_prefix(const Prefix& given, std::string_view switch_id) {
  const Prefix prefix = Prefix::of(given.address, given.length);
  const auto place = add_switch(switch_id);
  if (!place) return false;
  auto index = find_prefix(prefix);
  if (!index) {
    if (prefixes_.size() == kPrefixesMax) return false;
    index = static_cast<PrefixIndex>(prefixes_.size());
    prefixes_.push_back(prefix);
    attachments_.emplace_back();
  }
  if (attached(*index, *place)) return true;
  if (attachments_[*index].size() == kAttachmentsMax) return false;
  attachments_[*index].push_back(*place);
  return true;
}

std::optional<SwitchIndex> NetworkMap::find_switch(std::string_view id) const {
  const auto found = switch_index_.find(id);
  return found == switch_index_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<LinkIndex> NetworkMap::find_link(SwitchIndex from, std::string_view port) const {
  const auto found = link_index_.find({from, std::string{port}});
  return found == link_index_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<PrefixIndex> NetworkMap::find_prefix(const Prefix& prefix) const {
  const auto found = std::ranges::find(prefixes_, prefix);
  if (found == prefixes_.end()) return std::nullopt;
  return static_cast<PrefixIndex>(found - prefixes_.begin());
}

std::optional<PrefixIndex> NetworkMap::prefix_of(const IpAddress& address) const {
  std::optional<PrefixIndex> best;
  for (PrefixIndex i = 0; i < prefixes_.size(); ++i) {
    if (prefixes_[i].covers(address) && (!best || prefixes_[i].length > prefixes_[*best].length)) best = i;
  }
  return best;
}

bool NetworkMap::attached(PrefixIndex prefix, SwitchIndex to) const {
  return std::ranges::find(attachments_[prefix], to) != attachments_[prefix].end();
}

}  // namespace brdma::fabric::controller
