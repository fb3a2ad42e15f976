// abi/abi.h - facts of rdma-core's private provider ABI, 64-bit, in our own words; no header of it is used. Everything
// that moved between releases 28 and 65 is found out at run time (abi/layout.h, op_table.h). The public part
// (ibv_context, ibv_qp, ibv_wc, ...) comes from <infiniband/verbs.h>; its offsets, the same in every release, are
// asserted below, so that a different header fails to compile.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include <cstddef>
#include <cstdint>

namespace brdma::provider::abi {

// Offsets after a mutex are x86-64's plus this: a mutex has 40 bytes there, 48 on aarch64.
inline constexpr std::size_t kMutexGrowth = sizeof(pthread_mutex_t) - 40;
static_assert(sizeof(void*) == 8 && sizeof(pthread_cond_t) == 48);

// --- struct verbs_device_ops: registered by a plugin. Two forms; slots of 8 bytes. ---
inline constexpr std::size_t kDeviceOpsSlots = 9;
enum DeviceOpsSlot : std::size_t {
  kSlotName = 0,
  kSlotAbiRange = 1,  // two u32: oldest and newest abi_version file of a uverbs device that the plugin takes
  kSlotMatchTable = 2,
  kSlotStaticProviders = 3,
  kSlotMatchDevice = 4,
  kSlotAllocContext = 5,
  kSlotImportContext = 6,  // from release 31 on; left empty: ibv_import_device returns EOPNOTSUPP
  kSlotAllocDevice = 7,    // releases 28 to 30: slot 6
  kSlotUninitDevice = 8,   // releases 28 to 30: slot 7
};
inline constexpr std::size_t kSlotAllocDeviceV28 = 6, kSlotUninitDeviceV28 = 7;

// --- struct verbs_device: first the public ibv_device (664 bytes), then the ops pointer, counts, lists. ---
inline constexpr std::size_t kDeviceOpsPointer = 664;
inline constexpr std::size_t kDeviceBytes = 712;  // of the largest release; allocated with slack

// --- struct verbs_sysfs_dev: the argument of match_device. ---
inline constexpr std::size_t kSysfsDeviceName = 112;  // ibdev_name, char[64]

// --- struct verbs_context: grows at its front; the public ibv_context is its last member. ---
// Counted from the ibv_context:
inline constexpr std::size_t kContextBytes = 328 + kMutexGrowth;  // sizeof(ibv_context)
inline constexpr std::size_t kContextSizeBefore = 8;              // size_t: sizeof(verbs_context)
// Offsets of public operations inside ibv_context, which identify the operation table's release.
inline constexpr std::size_t kPublicPollCq = 96, kPublicReqNotifyCq = 104;
static_assert(sizeof(ibv_context) == kContextBytes);
static_assert(offsetof(ibv_context, ops.poll_cq) == kPublicPollCq);
static_assert(offsetof(ibv_context, ops.req_notify_cq) == kPublicReqNotifyCq);
static_assert(offsetof(ibv_context, cmd_fd) == 264 && offsetof(ibv_context, async_fd) == 268);
static_assert(offsetof(ibv_context, num_comp_vectors) == 272);
static_assert(offsetof(ibv_device, name) == 24 && offsetof(ibv_device, ibdev_path) == 408);
static_assert(sizeof(ibv_device) == kDeviceOpsPointer);

// --- struct verbs_mr ---
struct VerbsMr {
  ibv_mr mr;
  std::uint32_t type;  // 0: an ordinary region
  std::int32_t access;
};
static_assert(sizeof(VerbsMr) == 56 && offsetof(VerbsMr, type) == 48);

// --- struct verbs_qp: union of ibv_qp and ibv_qp_ex, then comp_mask (u32, place probed), then an XRC domain. ---
inline constexpr std::uint32_t kVerbsQpEx = 2;  // comp_mask: the object is an ibv_qp_ex
// Functions that ibv_qp_ex got later, in place of an earlier verbs_qp's comp_mask: written only if comp_mask is behind
// them.
inline constexpr std::size_t kQpExAtomicWrite = 344 + kMutexGrowth;  // from release 44 on
inline constexpr std::size_t kQpExFlush = 352 + kMutexGrowth;        // from release 45 on
// Constants of those releases, which the build's header may lack.
inline constexpr std::uint64_t kQpExWithFlush = 1u << 11, kQpExWithAtomicWrite = 1u << 12;
inline constexpr unsigned kWrAtomicWrite = 15;
inline constexpr unsigned kWcFlush = 8, kWcAtomicWrite = 9;
inline constexpr int kAccessFlushGlobal = 1 << 8;
inline constexpr std::uint32_t kOdpFlush = 1u << 6, kOdpAtomicWrite = 1u << 7;
inline constexpr std::uint64_t kDeviceFlushGlobal = std::uint64_t{1} << 38, kDeviceAtomicWrite = std::uint64_t{1} << 40;
inline constexpr std::uint32_t kParentDomainAllowUnprotected = 1u << 2;  // from release 65 on
static_assert(offsetof(ibv_qp_ex, wr_id) == 168 + kMutexGrowth && offsetof(ibv_qp_ex, wr_flags) == 176 + kMutexGrowth);
static_assert(offsetof(ibv_qp_ex, wr_atomic_cmp_swp) == 184 + kMutexGrowth &&
              offsetof(ibv_qp_ex, wr_abort) == 336 + kMutexGrowth);
// Room for the library's part of an object before our own: the largest known is verbs_qp with 376 bytes (384 on
// aarch64).
inline constexpr std::size_t kObjectReserve = 512;
// There may be thousands of queue pairs: no more than the known size. A library that needs more is refused (layout.cc).
inline constexpr std::size_t kQpReserve = 376 + kMutexGrowth;

static_assert(sizeof(ibv_qp) == 160 + kMutexGrowth && offsetof(ibv_qp, qp_num) == 52 && offsetof(ibv_qp, state) == 56);
static_assert(offsetof(ibv_qp, mutex) == 64 && offsetof(ibv_qp, cond) == 104 + kMutexGrowth &&
              offsetof(ibv_qp, events_completed) == 152 + kMutexGrowth);
static_assert(sizeof(ibv_cq) == 128 + kMutexGrowth && offsetof(ibv_cq, cqe) == 28 && offsetof(ibv_cq, mutex) == 32);
static_assert(offsetof(ibv_cq, cond) == 72 + kMutexGrowth &&
              offsetof(ibv_cq, comp_events_completed) == 120 + kMutexGrowth);
static_assert(offsetof(ibv_cq, async_events_completed) == 124 + kMutexGrowth);
static_assert(offsetof(ibv_cq_ex, async_events_completed) == 124 + kMutexGrowth &&
              offsetof(ibv_cq_ex, status) == 132 + kMutexGrowth);
static_assert(offsetof(ibv_cq_ex, start_poll) == 144 + kMutexGrowth &&
              offsetof(ibv_cq_ex, read_completion_wallclock_ns) == 280 + kMutexGrowth);
static_assert(sizeof(ibv_pd) == 16 && sizeof(ibv_mr) == 48 && sizeof(ibv_comp_channel) == 16);
static_assert(sizeof(ibv_wc) == 48 && sizeof(ibv_sge) == 16 && sizeof(ibv_async_event) == 16);
static_assert(sizeof(ibv_qp_attr) == 144 && sizeof(ibv_qp_init_attr) == 64 && sizeof(ibv_device_attr) == 232);

// ibv_port_attr grew from 52 to 56 bytes with release 49: the library's caller may have the short one. We set members
// one by one and none beyond this.
inline constexpr std::size_t kPortAttrBytes = 52;
static_assert(offsetof(ibv_port_attr, port_cap_flags2) + sizeof(std::uint16_t) <= kPortAttrBytes);

}  // namespace brdma::provider::abi
