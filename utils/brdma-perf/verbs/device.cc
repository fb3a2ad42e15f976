#include "verbs/device.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/address.hpp>
#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr int kGidsMax = 255;

ibv_gid gid_of(const std::string& address) {
  boost::system::error_code error;
  const auto parsed = boost::asio::ip::make_address(address, error);
  ibv_gid gid{};
  if (error) return gid;
  const auto v6 =
      parsed.is_v4() ? boost::asio::ip::make_address_v6(boost::asio::ip::v4_mapped, parsed.to_v4()) : parsed.to_v6();
  const auto bytes = v6.to_bytes();
  std::memcpy(gid.raw, bytes.data(), bytes.size());
  return gid;
}

bool is_zero(const ibv_gid& gid) { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }

// How well a GID serves: 0 not at all; the address before others, RoCE v2 before v1.
int worth(ibv_context* context, int port, int index, const ibv_gid& wanted, ibv_gid& gid) {
  ibv_gid_entry entry{};
  const bool known =
      ibv_query_gid_ex(context, static_cast<std::uint32_t>(port), static_cast<std::uint32_t>(index), &entry, 0) == 0;
  gid = entry.gid;
  if (!known && ibv_query_gid(context, static_cast<std::uint8_t>(port), index, &gid) != 0) return 0;
  if (is_zero(gid)) return 0;
  const bool second = known && entry.gid_type == IBV_GID_TYPE_ROCE_V2;
  return (std::memcmp(gid.raw, wanted.raw, sizeof gid.raw) == 0 ? 4 : 1) + (second ? 1 : 0);
}

// The port's end. nullopt: the port is down or has no GID. `fit`: how well its GID serves.
std::optional<Place> place_of(ibv_context* context, int port, int gid_index, const std::string& address, int& fit) {
  ibv_port_attr attributes{};
  if (ibv_query_port(context, static_cast<std::uint8_t>(port), &attributes) != 0) return std::nullopt;
  if (attributes.state != IBV_PORT_ACTIVE) return std::nullopt;
  Place place;
  place.port = static_cast<std::uint8_t>(port);
  place.lid = attributes.lid;
  place.ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET;
  place.mtu = attributes.active_mtu;
  const ibv_gid wanted = gid_of(address);
  fit = 0;
  for (int i = 0; i < std::min<int>(attributes.gid_tbl_len, kGidsMax); ++i) {
    if (gid_index >= 0 && i != gid_index) continue;
    ibv_gid gid{};
    const int value = worth(context, port, i, wanted, gid);
    if (value <= fit) continue;
    fit = value;
    place.gid = gid;
    place.gid_index = static_cast<std::uint8_t>(i);
  }
  return fit > 0 || !place.ethernet ? std::optional{place} : std::nullopt;
}

std::string none_found(const DeviceChoice& choice, const std::string& seen) {
  const std::string what = choice.name.empty()
                               ? std::string{"no RDMA device with an active port"}
                               : "no RDMA device '" + choice.name + "' with an active port and that GID";
  return what + (seen.empty() ? "; libibverbs finds none. For those of libbitmaprdma: brdma perf --ours"
                              : "; libibverbs finds:" + seen + ". See -d, -i and -x, and 'ibv_devinfo -v'");
}

struct DeviceList {
  DeviceList() : devices(ibv_get_device_list(&count)) {}
  DeviceList(const DeviceList&) = delete;
  DeviceList& operator=(const DeviceList&) = delete;
  ~DeviceList() {
    if (devices != nullptr) ibv_free_device_list(devices);
  }
  int count = 0;
  ibv_device** devices;
};

bool wanted(const DeviceChoice& choice, const std::string& name) {
  if (choice.ours && !name.starts_with("brdma_")) return false;
  return choice.name.empty() || choice.name == name;
}

}  // namespace

Device Device::open(const DeviceChoice& choice, const std::string& address) {
  const DeviceList list;
  std::string seen;
  std::optional<Device> best;
  int best_fit = -1;
  for (int i = 0; list.devices != nullptr && i < list.count; ++i) {
    const std::string name = ibv_get_device_name(list.devices[i]);
    seen += " " + name;
    if (!wanted(choice, name)) continue;
    ibv_context* const context = ibv_open_device(list.devices[i]);
    if (context == nullptr) continue;
    Device device{context, /*owned=*/true};
    int fit = 0;
    const auto place = place_of(context, choice.port, choice.gid_index, address, fit);
    if (!place || fit <= best_fit) continue;
    best_fit = fit;
    device.place_ = *place;
    best.emplace(std::move(device));
  }
  if (!best) throw RunError(none_found(choice, seen));
  if (ibv_query_device(best->context(), &best->limits_) != 0) throw RunError("cannot query " + best->name());
  return std::move(*best);
}

Device Device::borrow(ibv_context* context, int port, const std::string& address) {
  Device device{context, /*owned=*/false};
  int fit = 0;
  if (const auto place = place_of(context, port, -1, address, fit)) device.place_ = *place;
  if (ibv_query_device(context, &device.limits_) != 0) throw RunError("cannot query " + device.name());
  return device;
}

std::string gid_text(const ibv_gid& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, gid.raw, text.data(), text.size());
  return text.data();
}

ibv_gid gid_from_text(const std::string& text) {
  ibv_gid gid{};
  if (inet_pton(AF_INET6, text.c_str(), gid.raw) != 1) throw RunError("the other side's GID is malformed");
  return gid;
}

}  // namespace brdma::perf
