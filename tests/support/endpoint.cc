#include "support/endpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace brdma::test {
namespace {

constexpr std::uint32_t kAccessAll =
    kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic | kAccessFlushGlobal;
constexpr std::uint64_t kReceiveTag = std::uint64_t{1} << 63;
constexpr std::size_t kFindingsMax = 5;  // later ones are consequences of the first few

CompletionOpcode completion_of(WorkOpcode opcode) {
  switch (opcode) {
    case WorkOpcode::kRdmaWrite:
    case WorkOpcode::kRdmaWriteWithImm:
      return CompletionOpcode::kRdmaWrite;
    case WorkOpcode::kRdmaRead:
      return CompletionOpcode::kRdmaRead;
    case WorkOpcode::kAtomicCmpSwap:
      return CompletionOpcode::kCompSwap;
    case WorkOpcode::kAtomicFetchAdd:
      return CompletionOpcode::kFetchAdd;
    default:
      return CompletionOpcode::kSend;
  }
}

std::string number(CompletionStatus status) { return std::to_string(static_cast<std::uint32_t>(status)); }

}  // namespace

Endpoint::Endpoint(sim::World& world, sim::Host& host, const EndpointConfig& config, Arena& arena)
    : world_(world), host_(host), config_(config), arena_(arena) {}

void Endpoint::find(std::string what) {
  if (findings_.size() < kFindingsMax) {
    findings_.push_back(host_.config().name + " at " + std::to_string(world_.now().ns()) + " ns: " + std::move(what));
  }
}

void Endpoint::start() {
  Engine& engine = host_.engine();
  pd_ = engine.alloc_pd();
  auto region = engine.register_memory(pd_, reinterpret_cast<std::uintptr_t>(arena_.bytes()), arena_.size(),
                                       arena_.iova(), kAccessAll);
  BRDMA_CHECK(region.ok());
  region_ = region.value();
  key_ = engine.info(region_).lkey;
  auto cq = engine.create_cq(config_.send_wr_max + config_.receive_wr_max, this);
  BRDMA_CHECK(cq.ok());
  cq_ = cq.value();
  QpCreate create;
  create.pd = pd_;
  create.send_cq = create.receive_cq = cq_;
  create.capabilities = {config_.send_wr_max, config_.receive_wr_max, config_.sges_max, config_.sges_max,
                         config_.inline_bytes_max};
  create.signal_all = config_.signal_all;
  create.user = this;
  auto qp = engine.create_qp(create);
  BRDMA_CHECK(qp.ok());
  qp_ = qp.value();
}

void Endpoint::connect(const Endpoint& peer) {
  peer_ = &peer;
  QpAttributes a;
  a.access = kAccessAll;
  a.path_mtu = config_.mtu;
  a.destination_qpn = peer.qpn();
  a.receive_psn = peer.config_.first_psn;
  a.send_psn = config_.first_psn;
  a.local_address = host_.address();
  a.peer_address = peer.host_.address();
  a.timeout = config_.timeout;
  a.retry_count = config_.retry_count;
  a.rnr_retry = config_.rnr_retry;
  a.min_rnr_timer = config_.min_rnr_timer;
  a.max_rd_atomic = config_.rd_atomic_max;
  a.max_dest_rd_atomic = peer.config_.rd_atomic_max;
  const auto move = [&](QpState state, std::uint32_t mask) {
    a.state = state;
    BRDMA_CHECK(host_.engine().modify_qp(qp_, a, mask | kQpAttrState, world_.now()).ok());
  };
  move(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | kQpAttrAccess);
  move(QpState::kRtr,
       kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn | kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer);
  move(QpState::kRts, kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrSqPsn | kQpAttrMaxRdAtomic);
  host_.touch();
}

void Endpoint::set_traffic(const Traffic& own, const Traffic& peers) {
  own_ = &own;
  peers_ = &peers;
  for (std::size_t i = 0; i < peers.operations.size(); ++i) {
    const Operation& o = peers.operations[i];
    if (!o.is_write() || !o.alone || o.length == 0) continue;
    const std::size_t last = o.remote.offset + o.length - 1;
    if (arena_.initial()[last] != arena_.reference()[last]) watched_.push_back(i);
  }
}

void Endpoint::progress() {
  if (own_ == nullptr || away_ || crashed_ || qp_ == nullptr) return;
  watch_last_bytes();
  std::array<Completion, 32> completions;
  for (std::size_t count; (count = host_.engine().poll_cq(cq_, completions)) != 0;) {
    for (std::size_t i = 0; i < count; ++i) take(completions[i]);
  }
  // A queue pair in error completes posted requests at once: no more of them than the CQ has room for.
  const std::size_t receives =
      std::min({receives_allowed_, peers_->receives.size(), receives_posted_ + std::size_t{config_.receive_wr_max}});
  while (receives_posted_ < receives && post_receive(peers_->receives[receives_posted_], receives_posted_)) {
    ++receives_posted_;
  }
  const std::size_t operations =
      std::min({operations_allowed_, own_->operations.size(), operations_posted_ + std::size_t{config_.send_wr_max}});
  while (operations_posted_ < operations && post_operation(own_->operations[operations_posted_], operations_posted_)) {
    ++operations_posted_;
  }
  if (peer_lost_ && !moved_to_error_ && operations_completed_ >= completions_expected()) end_without_peer();
}

// An idle queue pair does not notice that its peer is gone: the program does, and ends it.
void Endpoint::end_without_peer() {
  QpAttributes attributes;
  attributes.state = QpState::kErr;
  const Status status = host_.engine().modify_qp(qp_, attributes, kQpAttrState, world_.now());
  if (!status.ok()) find("the move to ERR answered " + std::to_string(status.error()));
  moved_to_error_ = true;
  host_.touch();
}

void Endpoint::destroy() {
  if (crashed_ || qp_ == nullptr) return;
  Engine& engine = host_.engine();
  for (const Status status :
       {engine.destroy_qp(qp_), engine.destroy_cq(cq_), engine.deregister_memory(region_), engine.dealloc_pd(pd_)}) {
    if (!status.ok()) find("destroying its objects answered " + std::to_string(status.error()));
  }
  qp_ = nullptr;
  host_.touch();
}

bool Endpoint::post_operation(const Operation& operation, std::size_t index) {
  std::vector<Sge> sges;
  const bool is_inline = (operation.flags & kSendInline) != 0;
  const std::uint64_t start = is_inline ? reinterpret_cast<std::uintptr_t>(arena_.bytes()) : arena_.iova();
  for (const Buffer& b : operation.local) sges.push_back({start + b.offset, b.length, is_inline ? 0 : key_});
  SendRequest request;
  request.wr_id = index;
  request.sges = sges;
  request.opcode = operation.opcode;
  request.flags = operation.flags;
  request.immediate_be = operation.immediate_be;
  const bool beyond = operation.remote.offset == Operation::kBeyondRegion;
  request.remote_address =
      peer_->arena_.iova() + (beyond ? peer_->arena_.size() - operation.length + 1 : operation.remote.offset);
  request.rkey = peer_->key_ + operation.rkey_error;
  request.compare_or_add = operation.compare_or_add;
  request.swap = operation.swap;
  const Status status = host_.engine().post_send(qp_, request, world_.now());
  if (status.error() == ENOMEM) return false;
  if (!status.ok()) {
    find("post_send of operation " + std::to_string(index) + " answered " + std::to_string(status.error()));
    return false;
  }
  if (is_inline) {
    for (const Buffer& b : operation.local) {
      for (std::uint32_t i = 0; i < b.length; ++i) arena_.bytes()[b.offset + i] ^= std::byte{0xFF};
    }
  }
  host_.touch();
  return true;
}

bool Endpoint::post_receive(const Receive& receive, std::size_t index) {
  std::vector<Sge> sges;
  for (const Buffer& b : receive.local) sges.push_back({arena_.iova() + b.offset, b.length, key_});
  const Status status = host_.engine().post_receive(qp_, {kReceiveTag | index, sges}, world_.now());
  if (!status.ok() && status.error() != ENOMEM) find("post_receive answered " + std::to_string(status.error()));
  if (status.ok()) host_.touch();
  return status.ok();
}

void Endpoint::take(const Completion& completion) {
  if (completion.qp_num != qpn()) find("a completion of queue pair " + std::to_string(completion.qp_num));
  (completion.wr_id & kReceiveTag) != 0 ? take_receive(completion) : take_send(completion);
}

bool Endpoint::makes_completion(const Operation& operation) const {
  return config_.signal_all || (operation.flags & kSendSignaled) != 0 ||
         operation.expected != CompletionStatus::kSuccess || in_error_;  // errors always do
}

// An error ends the queue pair: one operation has the reason, all after it are flushed. The test knows in advance which
// request the peer refuses. But the refusing peer is in error and silent. So if its NAK was lost it looks dead, and
// acknowledgements of earlier operations may be lost too.
void Endpoint::take_error(const Completion& completion, const std::string& what) {
  const bool in_range = completion.wr_id >= operations_completed_ && completion.wr_id < operations_posted_;
  const auto skipped = own_->operations.begin() + static_cast<std::ptrdiff_t>(operations_completed_);
  const auto failed = own_->operations.begin() + static_cast<std::ptrdiff_t>(in_range ? completion.wr_id : 0);
  const auto silent = [this](const Operation& operation) { return !makes_completion(operation); };
  if (!in_range || !std::all_of(skipped, failed, silent))
    return find(what + " has status " + number(completion.status) + " out of turn");
  const bool refusal = own_->operations.back().expected != CompletionStatus::kSuccess;
  const bool given_up = peer_lost_ && completion.status == CompletionStatus::kRetryExceeded;
  const bool refused =
      refusal && (completion.status == failed->expected ||
                  (config_.refusal_may_be_lost && completion.status == CompletionStatus::kRetryExceeded));
  const bool right = in_error_ ? completion.status == CompletionStatus::kFlushed : refused || given_up;
  if (!right) find(what + " has status " + number(completion.status));
  in_error_ = true;
  operations_completed_ = completion.wr_id + 1;
}

void Endpoint::take_send(const Completion& completion) {
  const std::string what = "send completion " + std::to_string(completion.wr_id);
  if (completion.status != CompletionStatus::kSuccess) return take_error(completion, what);
  while (operations_completed_ < operations_posted_ && !makes_completion(own_->operations[operations_completed_])) {
    ++operations_completed_;
  }
  if (in_error_ || operations_completed_ >= operations_posted_ || completion.wr_id != operations_completed_) {
    return find(what + " where " + std::to_string(operations_completed_) + " was next");
  }
  const Operation& operation = own_->operations[operations_completed_++];
  if (operation.expected != CompletionStatus::kSuccess) return find(what + " succeeded");
  if (completion.opcode != completion_of(operation.opcode)) find(what + " has a wrong opcode");
  if (!operation.changes_remote() && !operation.is_send()) {
    check_memory(operation.local, what + ": bytes that were read");
    if (completion.byte_length != operation.length) find(what + " has a wrong length");
  }
  if (operation.is_atomic()) check_memory(operation.local, what + ": original value");
  if (operation.is_write() && !operation.overwritten && !peer_->arena_.as_expected(operation.remote)) {
    find(what + ": its bytes are not in the peer's memory");
  }
}

void Endpoint::take_receive(const Completion& completion) {
  const std::uint64_t index = completion.wr_id & ~kReceiveTag;
  const std::string what = "receive completion " + std::to_string(index);
  if (index != receives_completed_ || index >= receives_posted_) {
    return find(what + " where " + std::to_string(receives_completed_) + " was next, status " +
                number(completion.status));
  }
  const Receive& receive = peers_->receives[receives_completed_++];
  if (peer_lost_ && completion.status == CompletionStatus::kFlushed) receives_flushed_ = true;
  if (receives_flushed_) {
    if (completion.status != CompletionStatus::kFlushed) find(what + " succeeded after a flush");
    return;
  }
  if (completion.status != receive.expected) {
    return find(what + " has status " + number(completion.status) + ", not " + number(receive.expected));
  }
  if (completion.status != CompletionStatus::kSuccess) return;
  if (completion.opcode != receive.opcode) find(what + " has a wrong opcode");
  if (completion.byte_length != receive.length) {
    find(what + " has length " + std::to_string(completion.byte_length) + ", not " + std::to_string(receive.length));
  }
  const bool has_immediate = (completion.flags & kCompletionWithImm) != 0;
  if (has_immediate != receive.has_immediate) find(what + " has a wrong immediate flag");
  if (has_immediate && completion.immediate_be != receive.immediate_be) find(what + " has a wrong immediate");
  check_memory(receive.filled, what + ": received bytes");
}

void Endpoint::check_memory(const std::vector<Buffer>& buffers, const std::string& what) {
  for (const Buffer& b : buffers) {
    if (!arena_.as_expected(b)) find(what + " are wrong");
  }
}

// Programs poll on the last byte of a WRITE: when it has arrived, all before it must be there.
void Endpoint::watch_last_bytes() {
  std::erase_if(watched_, [this](std::size_t index) {
    const Buffer& b = peers_->operations[index].remote;
    const std::size_t last = b.offset + b.length - 1;
    if (arena_.bytes()[last] == arena_.initial()[last]) return false;
    if (!arena_.as_expected(b)) find("last byte of WRITE " + std::to_string(index) + " is there, bytes before it not");
    return true;
  });
}

// One past the last operation with a completion.
std::size_t Endpoint::completions_expected() const {
  std::size_t last = own_->operations.size();
  while (last > 0 && !makes_completion(own_->operations[last - 1])) --last;
  return last;
}

bool Endpoint::done() const {
  if (own_ == nullptr || crashed_) return true;
  return operations_completed_ >= completions_expected() && receives_completed_ == peers_->receives.size();
}

void Endpoint::check_end() {
  if (crashed_ || peer_lost_) {
    if (!arena_.guards_intact()) find("bytes outside of all buffers have changed");
    return;
  }
  if (const std::size_t at = arena_.first_difference(); at != arena_.size()) {
    find("memory differs from the reference at offset " + std::to_string(at) + " of " + std::to_string(arena_.size()));
  }
  if (!watched_.empty()) find("the last byte of WRITE " + std::to_string(watched_.front()) + " never changed");
}

std::string Endpoint::state() const {
  if (own_ == nullptr) return host_.config().name + ": no traffic\n";
  return host_.config().name + ": " + std::to_string(operations_completed_) + " of " +
         std::to_string(own_->operations.size()) + " operations completed (" + std::to_string(operations_posted_) +
         " posted), " + std::to_string(receives_completed_) + " of " + std::to_string(peers_->receives.size()) +
         " receives (" + std::to_string(receives_posted_) + " posted)\n";
}

}  // namespace brdma::test
