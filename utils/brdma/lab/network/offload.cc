#include "lab/network/offload.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <system_error>
#include <vector>

#include "io/system/file_descriptor.h"

namespace brdma::lab {
namespace {

class Ethtool {
 public:
  explicit Ethtool(std::string interface)
      : interface_(std::move(interface)), socket_(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {}

  // The names of the interface's features; the index of a feature is its bit.
  std::vector<std::string> feature_names() {
    std::vector<std::uint64_t> query(8);  // aligned room for ethtool_sset_info and one count
    auto* info = reinterpret_cast<ethtool_sset_info*>(query.data());
    info->cmd = ETHTOOL_GSSET_INFO;
    info->sset_mask = 1u << ETH_SS_FEATURES;
    call(info);
    const std::uint32_t count = info->sset_mask != 0 ? info->data[0] : 0;
    std::vector<std::uint64_t> buffer((sizeof(ethtool_gstrings) + std::size_t{count} * ETH_GSTRING_LEN) / 8 + 1);
    auto* strings = reinterpret_cast<ethtool_gstrings*>(buffer.data());
    strings->cmd = ETHTOOL_GSTRINGS;
    strings->string_set = ETH_SS_FEATURES;
    strings->len = count;
    call(strings);
    std::vector<std::string> names;
    for (std::uint32_t i = 0; i < count; ++i) {
      const auto* name = reinterpret_cast<const char*>(strings->data) + std::size_t{i} * ETH_GSTRING_LEN;
      names.emplace_back(name, strnlen(name, ETH_GSTRING_LEN));
    }
    return names;
  }

  void clear_features(const std::vector<std::size_t>& bits, std::size_t feature_count) {
    const std::size_t blocks = (feature_count + 31) / 32;
    std::vector<std::uint64_t> buffer((sizeof(ethtool_sfeatures) + blocks * sizeof(ethtool_set_features_block)) / 8 +
                                      1);
    auto* features = reinterpret_cast<ethtool_sfeatures*>(buffer.data());
    features->cmd = ETHTOOL_SFEATURES;
    features->size = static_cast<std::uint32_t>(blocks);
    for (const std::size_t bit : bits) features->features[bit / 32].valid |= 1u << (bit % 32);
    call(features);
  }

 private:
  void call(void* command) {
    ifreq request{};
    interface_.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_data = static_cast<char*>(command);
    if (ioctl(socket_.get(), SIOCETHTOOL, &request) < 0) {
      throw std::system_error(errno, std::generic_category(), "cannot set the offloads of " + interface_);
    }
  }
  std::string interface_;
  io::FileDescriptor socket_;
};

bool segments_tcp(std::string_view feature) {
  return feature.starts_with("tx-tcp") && feature.ends_with("-segmentation");
}

}  // namespace

void leave_no_segmentation_to(const std::string& interface, bool datagram_batches) {
  Ethtool ethtool{interface};
  const auto names = ethtool.feature_names();
  std::vector<std::size_t> off;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (segments_tcp(names[i]) || (!datagram_batches && names[i] == "tx-udp-segmentation")) off.push_back(i);
  }
  if (!off.empty()) ethtool.clear_features(off, names.size());
}

}  // namespace brdma::lab
