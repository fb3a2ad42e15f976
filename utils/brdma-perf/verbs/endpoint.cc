#include "verbs/endpoint.h"

#include <arpa/inet.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>

#include "values/message.h"
#include "values/samples.h"

namespace brdma::perf {
namespace {

constexpr std::uint32_t kInlineWanted = 220;  // bytes; perftest asks for as many
constexpr std::uint32_t kSendsBeside = 64;    // credits, replies and a last message, beside a lane's depth
constexpr std::uint8_t kRnrTimer = 12;        // 0.64 ms
constexpr std::uint8_t kAckTimeout = 14;      // 67 ms
constexpr std::uint8_t kHopLimit = 64;
constexpr int kAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;

template <class T>
T* need(T* pointer, const char* verb, const char* hint = "") {
  if (pointer == nullptr) throw RunError(std::string{verb} + ": " + std::strerror(errno) + hint);
  return pointer;
}

void need_zero(int error, const std::string& verb) {
  if (error != 0) throw RunError(verb + ": " + std::strerror(error > 0 ? error : errno));
}

std::uint64_t id_of(bool receive, std::uint32_t lane, std::uint32_t slot) {
  return (receive ? kReceiveBit : 0) | std::uint64_t{lane} << 32 | slot;
}

std::string failure_text(const ibv_wc& completion) {
  std::string text = std::string{"a message failed: "} + ibv_wc_status_str(completion.status);
  if (completion.status == IBV_WC_RETRY_EXC_ERR) {
    text += ". The other side does not answer: does it still run, is UDP port 4791 open, does the GID (-x) fit?";
  }
  return text;
}

}  // namespace

// The completion channel's events, by Asio. Handlers may run after the endpoint is gone.
struct Endpoint::Events {
  Events(Loop& loop, ibv_comp_channel* channel) : descriptor(loop.io(), channel->fd), from(channel) {}
  asio::posix::stream_descriptor descriptor;
  ibv_comp_channel* from;
  bool armed = false, waiting = false;

  static void wait(const std::shared_ptr<Events>& events) {
    if (events->waiting) return;
    events->waiting = true;
    events->descriptor.async_wait(asio::posix::stream_descriptor::wait_read,
                                  [events](const boost::system::error_code& error) {
                                    events->waiting = false;
                                    if (error || events->from == nullptr) return;
                                    ibv_cq* queue = nullptr;
                                    void* context = nullptr;
                                    if (ibv_get_cq_event(events->from, &queue, &context) == 0)
                                      ibv_ack_cq_events(queue, 1);
                                    events->armed = false;
                                  });
  }
};

WorkId work_id(std::uint64_t wr_id) {
  return {(wr_id & kReceiveBit) != 0, static_cast<std::uint32_t>((wr_id & ~kReceiveBit) >> 32),
          static_cast<std::uint32_t>(wr_id)};
}

Endpoint::Endpoint(Loop& loop, const Device& device, const Plan& plan, Side side)
    : device_(device), side_(side), lanes_(lanes_of(plan)), queue_pairs_(lanes_.size()) {
  try {
    domain_ = need(ibv_alloc_pd(device.context()), "ibv_alloc_pd");
    const std::size_t size = memory_of(lanes_);
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      throw RunError(std::string{"mmap: "} + std::strerror(errno) + "; lower --depth or --size");
    memory_ = {static_cast<std::byte*>(memory), size};
    fill_pattern(memory_, plan.seed);
    region_ = need(ibv_reg_mr(domain_, memory, size, kAccess), "ibv_reg_mr",
                   "; lower --depth or --size, or raise the limit of locked memory (ulimit -l)");
    std::uint64_t entries = 0;
    for (const Lane& lane : lanes_) {
      entries += lane.depth + kSendsBeside + std::max(lane.server_receives, lane.client_receives);
    }
    if (entries > static_cast<std::uint64_t>(device.limits().max_cqe)) {
      throw RunError("the device's completion queues are too short for this: lower --depth or --qps");
    }
    channel_ = need(ibv_create_comp_channel(device.context()), "ibv_create_comp_channel");
    queue_ = need(ibv_create_cq(device.context(), static_cast<int>(entries), nullptr, channel_, 0), "ibv_create_cq");
    events_ = std::make_shared<Events>(loop, channel_);
  } catch (...) {
    release();
    throw;
  }
}

Endpoint::~Endpoint() { release(); }

void Endpoint::release() {
  if (events_) {
    events_->from = nullptr;
    events_->descriptor.release();  // the channel closes it
  }
  for (const QueuePair& each : queue_pairs_) {
    if (each.qp != nullptr && each.owned) ibv_destroy_qp(each.qp);
  }
  if (queue_ != nullptr) ibv_destroy_cq(queue_);
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
  if (region_ != nullptr) ibv_dereg_mr(region_);
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  if (domain_ != nullptr) ibv_dealloc_pd(domain_);
}

std::span<std::byte> Endpoint::slot(std::uint32_t lane, std::uint32_t slot) const {
  const Lane& of = lanes_[lane];
  return memory_.subspan(of.offset + of.slot_bytes * slot, of.operation == Operation::kAtomic ? 8 : of.size);
}

RemoteMemory Endpoint::memory() const { return {reinterpret_cast<std::uintptr_t>(memory_.data()), region_->rkey}; }

ibv_qp_init_attr Endpoint::queue_pair_attributes(std::uint32_t lane) const {
  const Lane& of = lanes_[lane];
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = queue_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = of.depth + kSendsBeside;
  attributes.cap.max_recv_wr = std::max(1u, std::max(of.server_receives, of.client_receives));
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = kInlineWanted;
  return attributes;
}

ibv_qp* Endpoint::create(std::uint32_t lane, ibv_qp_init_attr& attributes) {
  attributes = queue_pair_attributes(lane);
  ibv_qp* qp = ibv_create_qp(domain_, &attributes);
  if (qp == nullptr) {
    attributes = queue_pair_attributes(lane);
    attributes.cap.max_inline_data = 0;
    qp = need(ibv_create_qp(domain_, &attributes), "ibv_create_qp", "; lower --depth or --qps");
  }
  return qp;
}

RemoteQueuePair Endpoint::make_queue_pair(std::uint32_t lane) {
  ibv_qp_init_attr attributes{};
  ibv_qp* const qp = create(lane, attributes);
  queue_pairs_[lane] = {qp, static_cast<std::uint32_t>(std::random_device{}()) & 0xFF'FFFF,
                        attributes.cap.max_inline_data, true};
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = device_.place().port;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  need_zero(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
            "ibv_modify_qp to INIT");
  return {qp->qp_num, queue_pairs_[lane].psn};
}

void Endpoint::adopt(std::uint32_t lane, ibv_qp* qp, std::uint32_t inline_max) {
  queue_pairs_[lane] = {qp, 0, inline_max, false};
}

void Endpoint::post_receives(std::uint32_t lane) {
  const Lane& of = lanes_[lane];
  const std::uint32_t count = side_ == Side::kServer ? of.server_receives : of.client_receives;
  for (std::uint32_t i = 0; i < count; ++i) post_receive(lane, of.role == Role::kPingPong ? i + 2 : i);
}

void Endpoint::connect(std::uint32_t lane, const Place& peer, const RemoteQueuePair& remote) {
  const Place& own = device_.place();
  const auto reads = static_cast<std::uint8_t>(std::clamp(device_.limits().max_qp_rd_atom, 1, int{kReadsMax}));
  const auto own_reads = static_cast<std::uint8_t>(std::clamp(device_.limits().max_qp_init_rd_atom, 1, int{kReadsMax}));
  ibv_qp* const qp = queue_pairs_[lane].qp;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = static_cast<ibv_mtu>(std::min(own.mtu, peer.mtu));
  attr.dest_qp_num = remote.number;
  attr.rq_psn = remote.psn;
  attr.max_dest_rd_atomic = reads;
  attr.min_rnr_timer = kRnrTimer;
  attr.ah_attr.port_num = own.port;
  attr.ah_attr.dlid = peer.lid;
  attr.ah_attr.is_global = own.ethernet ? 1 : 0;
  attr.ah_attr.grh.dgid = peer.gid;
  attr.ah_attr.grh.sgid_index = own.gid_index;
  attr.ah_attr.grh.hop_limit = kHopLimit;
  need_zero(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            "ibv_modify_qp to RTR (does the GID fit the other side's? see -x)");
  attr = {};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = kAckTimeout;
  attr.retry_cnt = attr.rnr_retry = kRetries;
  attr.sq_psn = queue_pairs_[lane].psn;
  attr.max_rd_atomic = own_reads;
  need_zero(ibv_modify_qp(qp, &attr,
                          IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                              IBV_QP_MAX_QP_RD_ATOMIC),
            "ibv_modify_qp to RTS");
}

void Endpoint::post(std::uint32_t lane, const Post& post) {
  const Lane& of = lanes_[lane];
  ibv_sge part{reinterpret_cast<std::uintptr_t>(memory_.data()) + of.offset + of.slot_bytes * post.slot, post.length,
               region_->lkey};
  const std::uint64_t remote = remote_.address + of.offset + of.slot_bytes * post.remote_slot;
  ibv_send_wr request{}, *bad = nullptr;
  request.wr_id = id_of(false, lane, post.slot);
  request.sg_list = &part;
  request.num_sge = post.length != 0 ? 1 : 0;
  request.opcode = post.opcode;
  request.imm_data = htonl(post.immediate);
  const bool takes_data = post.opcode != IBV_WR_RDMA_READ && post.opcode != IBV_WR_ATOMIC_FETCH_AND_ADD;
  const bool fits = takes_data && post.length <= queue_pairs_[lane].inline_max && post.length != 0;
  request.send_flags = (post.signaled ? unsigned{IBV_SEND_SIGNALED} : 0u) | (fits ? unsigned{IBV_SEND_INLINE} : 0u);
  if (post.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = remote;
    request.wr.atomic.rkey = remote_.key;
    request.wr.atomic.compare_add = 1;
  } else {
    request.wr.rdma.remote_addr = remote;
    request.wr.rdma.rkey = remote_.key;
  }
  need_zero(ibv_post_send(queue_pairs_[lane].qp, &request, &bad), "ibv_post_send");
}

void Endpoint::post_receive(std::uint32_t lane, std::uint32_t slot) {
  const Lane& of = lanes_[lane];
  // WRITEs bring their data without a receive's memory; so do credits, which have no data.
  const bool with_memory = of.operation == Operation::kSend;
  ibv_sge part{reinterpret_cast<std::uintptr_t>(memory_.data()) + of.offset + of.slot_bytes * slot, of.size,
               region_->lkey};
  ibv_recv_wr request{}, *bad = nullptr;
  request.wr_id = id_of(true, lane, slot);
  request.sg_list = &part;
  request.num_sge = with_memory ? 1 : 0;
  need_zero(ibv_post_recv(queue_pairs_[lane].qp, &request, &bad), "ibv_post_recv");
}

std::size_t Endpoint::poll(std::span<ibv_wc> completions) {
  const int count = ibv_poll_cq(queue_, static_cast<int>(completions.size()), completions.data());
  if (count < 0) throw RunError("ibv_poll_cq failed");
  for (int i = 0; i < count; ++i) {
    const ibv_wc& completion = completions[static_cast<std::size_t>(i)];
    if (completion.status != IBV_WC_SUCCESS) throw RunError(failure_text(completion));
  }
  return static_cast<std::size_t>(count);
}

void Endpoint::arm() {
  if (events_->armed) return;
  events_->armed = true;
  need_zero(ibv_req_notify_cq(queue_, 0), "ibv_req_notify_cq");
  Events::wait(events_);
}

bool Endpoint::has_event() const { return !events_->armed; }

}  // namespace brdma::perf
