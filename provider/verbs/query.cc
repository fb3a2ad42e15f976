// Device and port attributes: the engine's features, never more.
#include <endian.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "base/multicast.h"
#include "context/open_device.h"
#include "device/engine.h"
#include "device_files/port.h"
#include "io/shard/clock.h"
#include "memory/memory_table.h"
#include "qp/state/limits.h"
#include "verbs/verbs.h"

namespace brdma::provider::verbs {
namespace {

constexpr int kObjectsMax = 1 << 16;  // of each kind
constexpr std::uint8_t kPhysicalLinkUp = 5, kPhysicalDisabled = 3;
constexpr std::uint64_t kClockKhz = 1'000'000;        // of completion timestamps: nanoseconds of CLOCK_MONOTONIC
constexpr std::uint64_t kQkeyViolationsMax = 0xFFFF;  // IBTA 14.2.5.6: a counter of 16 bits, that stays at its end
constexpr std::uint32_t kPortCapabilities = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;

// This process's queue pairs' refusals for a wrong Q_Key; those of the port's other users are unknown.
std::uint32_t qkey_violations(OpenDevice& device) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < device.shards().size(); ++i) {
    count += Context::Session(device.shards()[i]).engine().statistics().get(DropReason::kBadQkey);
  }
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, kQkeyViolationsMax));
}

// The present limit: set by an operator, it may change while the program runs.
int queue_pairs_max(OpenDevice& device) {
  Context::Session session(device.shards().first());
  return static_cast<int>(std::min(session.engine().recovery().qps_max, std::uint32_t{kObjectsMax}));
}

void fill(OpenDevice& open, ibv_device_attr& attributes) {
  const DeviceInfo device = open.info();
  static_assert(sizeof kFirmwareVersion <= sizeof attributes.fw_ver);
  std::memcpy(attributes.fw_ver, kFirmwareVersion, sizeof kFirmwareVersion);
  attributes.vendor_id =
      0xFFFFFF;  // as devices without an organization's number report, Soft-RoCE too; 0 counts as no answer
  attributes.node_guid = htobe64(device.guid);
  attributes.sys_image_guid = htobe64(device.guid);
  attributes.max_mr_size = std::numeric_limits<std::uint64_t>::max();
  attributes.page_size_cap = 0xFFFFF000;  // nothing is pinned or translated: any page size does
  attributes.max_qp = queue_pairs_max(open);
  attributes.max_qp_wr = static_cast<int>(qp::kWorkRequestsMax);
  static_assert(kDeviceCapabilities ==
                (IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
                 IBV_DEVICE_UD_AV_PORT_ENFORCE | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC));
  attributes.device_cap_flags = kDeviceCapabilities;
  attributes.max_sge = static_cast<int>(qp::kSgesMax);
  attributes.max_sge_rd = static_cast<int>(qp::kSgesMax);
  attributes.max_cq = kObjectsMax;
  attributes.max_cqe = static_cast<int>(kCompletionsMax);
  attributes.max_mr = static_cast<int>(memory::kRegionsMax);
  attributes.max_mw = open.shards().size() > 1 ? 0 : static_cast<int>(memory::kWindowsMax);
  attributes.max_pd = kObjectsMax;
  attributes.max_ah = kObjectsMax;
  attributes.max_mcast_grp = static_cast<int>(kMulticastGroupsMax);
  attributes.max_mcast_qp_attach = static_cast<int>(kMulticastGroupMembersMax);
  attributes.max_total_mcast_qp_attach = static_cast<int>(kMulticastMembersMax);
  attributes.max_qp_rd_atom = static_cast<int>(qp::kRdAtomicMax);
  attributes.max_qp_init_rd_atom = static_cast<int>(qp::kRdAtomicMax);
  attributes.max_res_rd_atom = static_cast<int>(qp::kRdAtomicMax) * kObjectsMax;
  attributes.atomic_cap = IBV_ATOMIC_HCA;
  attributes.max_srq = kObjectsMax;
  attributes.max_srq_wr = static_cast<int>(qp::kWorkRequestsMax);
  attributes.max_srq_sge = static_cast<int>(qp::kSgesMax);
  attributes.max_pkeys = 1;
  attributes.phys_port_cnt = 1;
}

}  // namespace

extern "C" {

int query_device(ibv_context* context, ibv_device_attr* attributes) {
  *attributes = {};
  fill(device_of(context), *attributes);
  return 0;
}

// `bytes` is the size of the caller's structure, which may be older and shorter or newer and longer than ours.
int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    std::size_t bytes) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  ibv_device_attr_ex full{};
  fill(device_of(context), full.orig_attr);
  full.completion_timestamp_mask = std::numeric_limits<std::uint64_t>::max();
  full.hca_core_clock = kClockKhz;
  full.device_cap_flags_ex = full.orig_attr.device_cap_flags | abi::kDeviceAtomicWrite | abi::kDeviceFlushGlobal;
  full.phys_port_cnt_ex = 1;
  full.max_dm_size = kDeviceMemoryMax;
  full.cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX};
  // No page is pinned for any region: pages come and go as in any process.
  constexpr std::uint32_t kSends = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  full.odp_caps.general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
  full.odp_caps.per_transport_caps = {.rc_odp_caps = kSends | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ |
                                                     IBV_ODP_SUPPORT_ATOMIC | abi::kOdpFlush | abi::kOdpAtomicWrite,
                                      .uc_odp_caps = kSends | IBV_ODP_SUPPORT_WRITE,
                                      .ud_odp_caps = kSends};
  std::memset(attributes, 0, bytes);
  std::memcpy(attributes, &full, std::min(bytes, sizeof full));
  return 0;
}

// As hardware drivers do: the clock's whole count is in tv_nsec, comparable with completion timestamps.
int query_rt_values(ibv_context*, ibv_values_ex* values) {
  values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;  // drops unsupported bits
  if (values->comp_mask != 0) values->raw_clock = {.tv_sec = 0, .tv_nsec = io::monotonic_now().ns()};
  return 0;
}

// Release 62. In units of 100 Mbit/s: the interface's own, which no width and speed of a link can name exactly.
int query_port_speed(ibv_context* context, std::uint32_t port, std::uint64_t* speed) {
  if (port != 1) return EINVAL;
  *speed = device_of(context).info().speed_mbps / 100;
  return 0;
}

// Members one by one: the caller's structure may end before ours does (abi::kPortAttrBytes).
int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) {
  if (port != 1) return EINVAL;
  const DeviceInfo device = device_of(context).info();
  const LinkRate rate = link_rate(device.speed_mbps);
  attributes->state = device.active ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes->max_mtu = IBV_MTU_4096;
  attributes->active_mtu = static_cast<ibv_mtu>(device.active_mtu);
  attributes->gid_tbl_len = static_cast<int>(device.gids.size());
  attributes->port_cap_flags = kPortCapabilities;
  attributes->max_msg_sz = qp::kMessageBytesMax;
  attributes->qkey_viol_cntr = qkey_violations(device_of(context));
  attributes->pkey_tbl_len = 1;
  attributes->lid = lid_of(device);
  attributes->max_vl_num = 1;
  attributes->active_width = rate.width;
  attributes->active_speed = rate.speed;
  attributes->phys_state = device.active ? kPhysicalLinkUp : kPhysicalDisabled;
  attributes->link_layer = IBV_LINK_LAYER_ETHERNET;
  attributes->flags = IBV_QPF_GRH_REQUIRED;
  return 0;
}

void free_context(ibv_context* context) {
  OpenDevice* device = &device_of(context);
  device->close();
  delete device;
}

}  // extern "C"

}  // namespace brdma::provider::verbs
