#include "check/probe/verbs.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "check/probe/probe.h"

namespace brdma::probe {
namespace {

constexpr std::uint32_t kDepth = 256;
constexpr std::uint32_t kGrhBytes = 40, kReceiveRoom = kGrhBytes + 4096;  // of the longest datagram

void* library() {
  void* const handle = ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (handle == nullptr) throw StepFailed(::dlerror(), ENOENT, "verbs_library_missing");
  return handle;
}

template <class Function>
void find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(handle, name));
  if (function == nullptr) throw StepFailed(std::string{"libibverbs has no "} + name, ENOSYS, "verbs_library_missing");
}

Functions load() {
  void* const handle = library();
  Functions all{};
  find(handle, "ibv_get_device_list", all.get_device_list);
  find(handle, "ibv_free_device_list", all.free_device_list);
  find(handle, "ibv_get_device_name", all.get_device_name);
  find(handle, "ibv_open_device", all.open_device);
  find(handle, "ibv_close_device", all.close_device);
  find(handle, "ibv_query_gid", all.query_gid);
  find(handle, "ibv_query_port", all.query_port);
  find(handle, "ibv_alloc_pd", all.alloc_pd);
  find(handle, "ibv_dealloc_pd", all.dealloc_pd);
  find(handle, "ibv_reg_mr", all.reg_mr);
  find(handle, "ibv_dereg_mr", all.dereg_mr);
  find(handle, "ibv_create_cq", all.create_cq);
  find(handle, "ibv_destroy_cq", all.destroy_cq);
  find(handle, "ibv_create_qp", all.create_qp);
  find(handle, "ibv_modify_qp", all.modify_qp);
  find(handle, "ibv_destroy_qp", all.destroy_qp);
  find(handle, "ibv_create_ah", all.create_ah);
  find(handle, "ibv_destroy_ah", all.destroy_ah);
  return all;
}

template <class T>
T* need(T* object, const char* step) {
  if (object == nullptr) throw StepFailed(step, errno != 0 ? errno : EIO);
  return object;
}

void need_zero(int result, const char* step) {
  if (result != 0) throw StepFailed(step, result > 0 ? result : errno);
}

bool is_link_local(const ibv_gid& gid) { return gid.raw[0] == 0xFE && (gid.raw[1] & 0xC0) == 0x80; }

bool is_zero(const ibv_gid& gid) {
  const ibv_gid zero{};
  return std::memcmp(gid.raw, zero.raw, sizeof gid.raw) == 0;
}

ibv_context* open_named(const std::string& name) {
  const Functions& verbs = functions();
  int count = 0;
  ibv_device** const list = need(verbs.get_device_list(&count), "ibv_get_device_list");
  ibv_context* context = nullptr;
  errno = ENODEV;
  for (int i = 0; i < count; ++i) {
    if (name == verbs.get_device_name(list[i])) context = verbs.open_device(list[i]);
  }
  const int error = errno;
  verbs.free_device_list(list);
  errno = error;
  return need(context, "ibv_open_device");
}

ibv_ah_attr path_to(const Remote& remote, int gid_index) {
  ibv_ah_attr path{};
  path.is_global = 1;
  path.grh.dgid = remote.gid;
  path.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  path.grh.hop_limit = 64;
  path.port_num = 1;
  return path;
}

ibv_mtu mtu_of(std::uint32_t bytes) {
  auto mtu = IBV_MTU_256;
  for (const auto larger : {IBV_MTU_512, IBV_MTU_1024, IBV_MTU_2048, IBV_MTU_4096}) {
    if ((128u << larger) <= bytes) mtu = larger;
  }
  return mtu;
}

}  // namespace

const Functions& functions() {
  static const Functions all = load();
  return all;
}

std::vector<std::string> list_names() {
  const Functions& verbs = functions();
  int count = 0;
  ibv_device** const list = verbs.get_device_list(&count);
  std::vector<std::string> names;
  for (int i = 0; list != nullptr && i < count; ++i) names.emplace_back(verbs.get_device_name(list[i]));
  if (list != nullptr) verbs.free_device_list(list);
  return names;
}

Device::Device(const std::string& name) : name_(name), memory_(kLimits.region_bytes) {
  const Functions& verbs = functions();
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  context_ = open_named(name);
  try {
    need_zero(verbs.query_port(context_, 1, &port_), "ibv_query_port");
    pd_ = need(verbs.alloc_pd(context_), "ibv_alloc_pd");
    region_ = need(verbs.reg_mr(pd_, memory_.data(), memory_.size(), kAccess), "ibv_reg_mr");
  } catch (...) {
    if (pd_ != nullptr) verbs.dealloc_pd(pd_);
    verbs.close_device(context_);
    throw;
  }
}

Device::~Device() {
  functions().dereg_mr(region_);
  functions().dealloc_pd(pd_);
  functions().close_device(context_);
}

ibv_gid Device::gid(int index) const {
  ibv_gid gid{};
  if (functions().query_gid(context_, 1, index, &gid) != 0) gid = {};
  return gid;
}

int Device::gid_index(const std::array<std::uint8_t, 16>& address) const {
  for (int i = 0; i < port_.gid_tbl_len; ++i) {
    const ibv_gid one = gid(i);
    if (!is_zero(one) && std::memcmp(one.raw, address.data(), address.size()) == 0) return i;
  }
  return -1;
}

int Device::first_gid_index() const {
  for (int i = 0; i < port_.gid_tbl_len; ++i) {
    const ibv_gid one = gid(i);
    if (!is_zero(one) && !is_link_local(one)) return i;
  }
  return 0;
}

QueuePair::QueuePair(Device& device, ibv_qp_type type) : device_(device), type_(type) {
  const Functions& verbs = functions();
  cq_ = need(verbs.create_cq(device.context(), 2 * kDepth, nullptr, nullptr, 0), "ibv_create_cq");
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = cq_;
  wanted.qp_type = type;
  wanted.sq_sig_all = 1;
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = kDepth;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  qp_ = verbs.create_qp(device.pd(), &wanted);
  if (qp_ == nullptr) {
    const int error = errno;
    verbs.destroy_cq(cq_);
    throw StepFailed("ibv_create_qp", error);
  }
}

QueuePair::~QueuePair() {
  functions().destroy_qp(qp_);
  if (ah_ != nullptr) functions().destroy_ah(ah_);
  functions().destroy_cq(cq_);
}

void QueuePair::to_init() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qkey = kQkey;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  const int what = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                   static_cast<int>(type_ == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
  need_zero(functions().modify_qp(qp_, &attr, what), "ibv_modify_qp to INIT");
}

void QueuePair::connect(const Remote& remote, int gid_index, std::uint32_t path_mtu) {
  to_init();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = mtu_of(path_mtu);
  attr.dest_qp_num = remote.qpn;
  attr.rq_psn = remote.psn;
  attr.max_dest_rd_atomic = 8;
  attr.min_rnr_timer = 12;
  attr.ah_attr = path_to(remote, gid_index);
  need_zero(functions().modify_qp(qp_, &attr,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "ibv_modify_qp to RTR");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;  // 67 ms, and 5 retries
  attr.retry_cnt = 5;
  attr.rnr_retry = 6;
  attr.sq_psn = kFirstPsn;
  attr.max_rd_atomic = 8;
  need_zero(functions().modify_qp(qp_, &attr,
                                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                      IBV_QP_MAX_QP_RD_ATOMIC),
            "ibv_modify_qp to RTS");
}

void QueuePair::reach(const Remote& remote, int gid_index) {
  to_init();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  need_zero(functions().modify_qp(qp_, &attr, IBV_QP_STATE), "ibv_modify_qp to RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = kFirstPsn;
  need_zero(functions().modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN), "ibv_modify_qp to RTS");
  ibv_ah_attr path = path_to(remote, gid_index);
  ah_ = need(functions().create_ah(device_.pd(), &path), "ibv_create_ah");
  remote_qpn_ = remote.qpn;
}

void QueuePair::post(ibv_wr_opcode opcode, std::uint32_t bytes, const Remote& remote) {
  ibv_sge sge{device_.address(), bytes, device_.lkey()};
  ibv_send_wr request{};
  request.opcode = opcode;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.wr.rdma.remote_addr = remote.address;
  request.wr.rdma.rkey = remote.rkey;
  ibv_send_wr* bad = nullptr;
  need_zero(ibv_post_send(qp_, &request, &bad), "ibv_post_send");
}

void QueuePair::post_datagram(std::uint32_t number, std::uint32_t bytes) {
  std::memcpy(device_.memory(), &number, sizeof number);
  ibv_sge sge{device_.address(), bytes, device_.lkey()};
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.wr.ud.ah = ah_;
  request.wr.ud.remote_qpn = remote_qpn_;
  request.wr.ud.remote_qkey = kQkey;
  ibv_send_wr* bad = nullptr;
  need_zero(ibv_post_send(qp_, &request, &bad), "ibv_post_send");
}

// Behind the part that datagrams are sent from.
void QueuePair::post_receive(std::uint32_t slot) {
  ibv_sge sge{device_.address() + std::uint64_t{slot + 1} * kReceiveRoom, kReceiveRoom, device_.lkey()};
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  need_zero(ibv_post_recv(qp_, &request, &bad), "ibv_post_recv");
}

const std::uint8_t* QueuePair::payload(std::uint64_t slot) const {
  return device_.memory() + (slot + 1) * kReceiveRoom + kGrhBytes;
}

bool QueuePair::wait(ibv_wc& completion, Clock::time_point until) {
  for (;;) {
    const int got = ibv_poll_cq(cq_, 1, &completion);
    if (got < 0) throw StepFailed("ibv_poll_cq", EIO);
    if (got > 0) break;
    if (Clock::now() >= until) return false;
    std::this_thread::yield();
  }
  if (completion.status == IBV_WC_SUCCESS) return true;
  throw StepFailed("a work request failed with status " + std::to_string(completion.status),
                   completion.status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : EIO);
}

}  // namespace brdma::probe
