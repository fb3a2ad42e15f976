#include "xdp/xdp_features.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <netlink/netlink.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cstring>
#include <memory>

#include "io/system/file_descriptor.h"

namespace brdma::daemon {
namespace {

// From linux/netdev.h, which Debian 12's headers lack.
constexpr std::uint8_t kDeviceGet = 1;        // NETDEV_CMD_DEV_GET
constexpr int kIfindex = 1, kFeatures = 3;    // NETDEV_A_DEV_IFINDEX, NETDEV_A_DEV_XDP_FEATURES
constexpr std::uint64_t kZeroCopy = 1u << 3;  // NETDEV_XDP_ACT_XSK_ZEROCOPY

int take_response(nl_msg* message, void* out) {
  genlmsghdr* const header = static_cast<genlmsghdr*>(nlmsg_data(nlmsg_hdr(message)));
  const nlattr* const found = nla_find(genlmsg_attrdata(header, 0), genlmsg_attrlen(header, 0), kFeatures);
  if (found == nullptr || nla_len(found) < static_cast<int>(sizeof(std::uint64_t))) return NL_OK;
  auto& features = *static_cast<XdpFeatures*>(out);
  features.known = true;
  features.zero_copy = (nla_get_u64(found) & kZeroCopy) != 0;
  return NL_OK;
}

}  // namespace

XdpFeatures xdp_features(std::uint32_t ifindex) {
  XdpFeatures features;
  const std::unique_ptr<nl_sock, void (*)(nl_sock*)> socket{nl_socket_alloc(), nl_socket_free};
  if (socket == nullptr || genl_connect(socket.get()) != 0) return features;
  const int family = genl_ctrl_resolve(socket.get(), "netdev");
  if (family < 0) return features;
  const std::unique_ptr<nl_msg, void (*)(nl_msg*)> question{nlmsg_alloc(), nlmsg_free};
  if (question == nullptr ||
      genlmsg_put(question.get(), NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, 0, kDeviceGet, 1) == nullptr ||
      nla_put_u32(question.get(), kIfindex, ifindex) != 0)
    return features;
  nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, &take_response, &features);
  if (nl_send_auto(socket.get(), question.get()) >= 0) (void)nl_recvmsgs_default(socket.get());
  return features;
}

bool is_virtual(const char* interface_name) {
  const io::FileDescriptor any{::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  std::strncpy(request.ifr_name, interface_name, IF_NAMESIZE - 1);
  request.ifr_data = reinterpret_cast<char*>(&driver);
  return ::ioctl(any.get(), SIOCETHTOOL, &request) != 0 || driver.bus_info[0] == '\0';
}

}  // namespace brdma::daemon
