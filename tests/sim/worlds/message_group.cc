#include "worlds/message_group.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "device/engine.h"
#include "worlds/draws.h"

namespace brdma::test {
namespace {

constexpr std::size_t kFindingsMax = 5;
constexpr std::uint32_t kAccess = kAccessLocalWrite | kAccessRemoteWrite | kAccessMwBind;

std::uint32_t name_of(std::size_t sender, std::uint32_t message) {
  return static_cast<std::uint32_t>(sender << 24) | message;
}

}  // namespace

MessageGroup::MessageGroup(sim::World& world, const GroupSettings& settings, sim::Host& receiver,
                           std::vector<sim::Host*> senders)
    : world_(world), settings_(settings), random_(settings.seed), receiver_(receiver), senders_(senders.size()) {
  for (std::size_t i = 0; i < senders.size(); ++i) senders_[i].host = senders[i];
}

void MessageGroup::find(std::string what) {
  if (findings_.size() < kFindingsMax) {
    findings_.push_back("group at " + receiver_.config().name + " at " + std::to_string(world_.now().ns()) +
                        " ns: " + std::move(what));
  }
}

// The last message of a sender with a window goes beyond it.
bool MessageGroup::is_write(std::size_t sender, std::uint32_t message) const {
  if (settings_.type == QpType::kUd) return false;
  return settings_.windows || (sender + message) % 3 == 0;
}
std::uint32_t MessageGroup::length_of(std::size_t sender, std::uint32_t message) const {
  return static_cast<std::uint32_t>((message * 2654435761u + sender * 40503u) % (settings_.bytes_max + 1));
}
bool MessageGroup::is_astray(std::size_t sender, std::uint32_t message) const {
  return settings_.windows && message + 1 == settings_.messages && length_of(sender, message) > 0;
}
std::byte MessageGroup::byte_of(std::size_t sender, std::uint32_t message, std::size_t at) const {
  return static_cast<std::byte>(message * 131 + sender * 29 + at * 7 + (at >> 8) * 3 + 1);
}

bool MessageGroup::holds(std::size_t offset, std::size_t sender, std::uint32_t message) const {
  for (std::uint32_t i = 0; i < length_of(sender, message); ++i) {
    if (memory_[offset + i] != byte_of(sender, message, i)) return false;
  }
  return true;
}

QueuePair* MessageGroup::make_qp(sim::Host& host, ProtectionDomain* pd, CompletionQueue* cq, bool receives) {
  QpCreate create;
  create.type = settings_.type;
  create.pd = pd;
  create.send_cq = receives ? bind_cq_ : cq;
  create.receive_cq = cq;
  create.srq = receives ? srq_ : nullptr;
  create.capabilities = {.send_wr_max = kInFlight,
                         .receive_wr_max = receives && srq_ == nullptr ? settings_.receives : 0,
                         .send_sge_max = 1,
                         .receive_sge_max = 1};
  create.path_mtu = settings_.mtu;
  return host.engine().create_qp(create).value();
}

void MessageGroup::connect(sim::Host& host, QueuePair* qp, const sim::Host& peer, const QueuePair* peer_qp,
                           sim::Host& peer_host) {
  QpAttributes a;
  a.path_mtu = settings_.mtu;
  a.access = kAccessRemoteWrite;
  a.local_address = host.address();
  a.peer_address = peer.address();
  if (peer_qp != nullptr) a.destination_qpn = peer_host.engine().qp_num(peer_qp);
  a.qkey = kQkey;
  a.timeout = settings_.timeout;
  a.min_rnr_timer = 1;
  a.max_rd_atomic = a.max_dest_rd_atomic = 1;
  a.send_psn = a.receive_psn = settings_.first_psn;
  const auto move = [&](QpState state, std::uint32_t mask) {
    a.state = state;
    BRDMA_CHECK(host.engine().modify_qp(qp, a, mask | kQpAttrState, world_.now()).ok());
  };
  const bool ud = settings_.type == QpType::kUd;
  std::uint32_t to_rtr = ud ? 0 : kQpAttrAv | kQpAttrPathMtu | kQpAttrDestQpn | kQpAttrRqPsn;
  std::uint32_t to_rts = kQpAttrSqPsn;
  if (reliable()) {
    to_rtr |= kQpAttrMaxDestRdAtomic | kQpAttrMinRnrTimer;
    to_rts |= kQpAttrTimeout | kQpAttrRetryCount | kQpAttrRnrRetry | kQpAttrMaxRdAtomic;
  }
  move(QpState::kInit, kQpAttrPkeyIndex | kQpAttrPort | (ud ? kQpAttrQkey : kQpAttrAccess));
  move(QpState::kRtr, to_rtr);
  move(QpState::kRts, to_rts);
  host.touch();
}

void MessageGroup::begin(Duration faults_last) {
  Engine& engine = receiver_.engine();
  memory_.assign(memory_bytes(), kUntouched);
  pd_ = engine.alloc_pd();
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  region_ = engine.register_memory(pd_, address, memory_.size(), settings_.iova, kAccess).value();
  key_ = engine.info(region_).lkey;
  cq_ = engine.create_cq(settings_.receives + 1, nullptr).value();
  bind_cq_ = engine.create_cq(settings_.receives + 16, nullptr).value();
  if (settings_.shared) {
    SrqAttributes attributes{.wr_max = settings_.receives, .sge_max = 1};
    srq_ = engine.create_srq(pd_, attributes, nullptr).value();
  }
  for (Sender& sender : senders_) {
    Engine& own = sender.host->engine();
    sender.pd = own.alloc_pd();
    sender.bytes.resize(std::size_t{kInFlight} * settings_.bytes_max + 1);
    sender.received.assign(settings_.messages, 0);
    sender.region = own.register_memory(sender.pd, reinterpret_cast<std::uintptr_t>(sender.bytes.data()),
                                        sender.bytes.size(), settings_.iova, kAccess)
                        .value();
    sender.cq = own.create_cq(kInFlight + 1, nullptr).value();
    sender.qp = make_qp(*sender.host, sender.pd, sender.cq, false);
    const bool first = &sender == &senders_.front();
    const bool ud = settings_.type == QpType::kUd;
    sender.peer = ud && !first ? senders_.front().peer : make_qp(receiver_, pd_, cq_, true);
    sender.address = {.local = sender.host->address(), .peer = receiver_.address()};
    connect(*sender.host, sender.qp, receiver_, sender.peer, receiver_);
    if (first || !ud) connect(receiver_, sender.peer, *sender.host, sender.qp, *sender.host);
    if (settings_.windows) bind_window(sender, static_cast<std::size_t>(&sender - senders_.data()));
    std::vector<Instant> when;
    for (std::uint32_t i = 0; i < settings_.messages; ++i) {
      when.push_back(world_.now() + draw_up_to(random_, faults_last));
    }
    for (const Instant at : when) world_.at(at, [&sender] { ++sender.allowed; });
  }
  posted_.assign(settings_.receives, false);
  for (std::uint32_t i = 0; i < settings_.receives; ++i) post_receive(i);
}

// Covers only the sender's places.
void MessageGroup::bind_window(Sender& sender, std::size_t number) {
  Engine& engine = receiver_.engine();
  sender.window = engine.alloc_window(pd_, settings_.second_type).value();
  const std::uint32_t key = engine.info(sender.window).rkey;
  sender.window_key = (key & ~0xFFu) | ((key + 1) & 0xFF);
  SendRequest request;
  request.wr_id = number;
  request.opcode = WorkOpcode::kBindMw;
  request.flags = kSendSignaled;
  request.rkey = sender.window_key;
  request.immediate_be = key_;
  request.remote_address = settings_.iova + target_at(number, 0);
  request.compare_or_add = target_at(number, settings_.messages) - target_at(number, 0);
  request.swap = kAccessRemoteWrite;
  sender.may_write = false;
  BRDMA_CHECK(engine.post_send(sender.peer, request, world_.now()).ok());
  receiver_.touch();
}

void MessageGroup::post_receive(std::uint32_t receive) {
  const Sge sge{settings_.iova + buffer_at(receive), settings_.bytes_max + static_cast<std::uint32_t>(kGrh), key_};
  const ReceiveRequest request{receive, std::span<const Sge>{&sge, 1}};
  const Status status = srq_ != nullptr ? receiver_.engine().post_receive(srq_, request, world_.now())
                                        : receiver_.engine().post_receive(senders_[0].peer, request, world_.now());
  if (!status.ok()) return find("a receive cannot be posted");
  posted_[receive] = true;
  receiver_.touch();
}

void MessageGroup::progress() {
  take_receives();
  std::array<Completion, 16> done;
  const std::size_t bound = receiver_.engine().poll_cq(bind_cq_, done);
  for (std::size_t i = 0; i < bound; ++i) {
    if (done[i].status == CompletionStatus::kSuccess) {
      senders_[done[i].wr_id].may_write = true;
    } else {
      find("a window could not be bound");
    }
  }
  for (std::size_t i = 0; i < senders_.size(); ++i) {
    take_sends(i);
    Sender& sender = senders_[i];
    while (!sender.failed && sender.may_write && sender.posted < sender.allowed &&
           sender.posted - sender.completed < kInFlight) {
      post(i);
    }
  }
}

void MessageGroup::post(std::size_t number) {
  Sender& sender = senders_[number];
  const std::uint32_t message = sender.posted++;
  const std::size_t at = std::size_t{message % kInFlight} * settings_.bytes_max;
  const std::uint32_t length = length_of(number, message);
  for (std::uint32_t i = 0; i < length; ++i) sender.bytes[at + i] = byte_of(number, message, i);
  const Sge sge{settings_.iova + at, length, sender.host->engine().info(sender.region).lkey};
  SendRequest request;
  request.wr_id = message;
  request.sges = {&sge, 1};
  request.flags = kSendSignaled;
  request.immediate_be = name_of(number, message);
  request.opcode = WorkOpcode::kSendWithImm;
  if (is_write(number, message)) {
    request.opcode = WorkOpcode::kRdmaWriteWithImm;
    request.remote_address = settings_.iova + target_at(number, message);
    request.rkey = settings_.windows ? sender.window_key : key_;
    if (is_astray(number, message))
      request.remote_address = settings_.iova + target_at(number, settings_.messages) - length / 2;
  }
  if (settings_.type == QpType::kUd) {
    request.address = &sender.address;
    request.remote_qpn = receiver_.engine().qp_num(sender.peer);
    request.remote_qkey = kQkey;
  }
  if (!sender.host->engine().post_send(sender.qp, request, world_.now()).ok()) find("a message cannot be posted");
  sender.host->touch();
}

void MessageGroup::take_sends(std::size_t number) {
  Sender& sender = senders_[number];
  std::array<Completion, kInFlight> done;
  const std::size_t count = sender.host->engine().poll_cq(sender.cq, done);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t message = sender.completed++;
    if (done[i].wr_id != message) find("send " + std::to_string(done[i].wr_id) + " completes out of its turn");
    if (done[i].status == CompletionStatus::kSuccess) continue;
    const bool astray = is_astray(number, message);
    const bool refused = astray && done[i].status == CompletionStatus::kRemoteAccessError;
    // The refusal may be lost: then the peer looks dead to unacknowledged messages and later ones.
    const bool all_posted = settings_.windows && sender.posted == settings_.messages;
    const bool came = astray || sender.received[message] != 0;
    const bool silent = all_posted && came && done[i].status == CompletionStatus::kRetryExceeded;
    const bool flushed = sender.failed && came && done[i].status == CompletionStatus::kFlushed;
    sender.failed = true;
    if (!refused && !silent && !flushed) {
      find("send " + std::to_string(message) + " ends with status " +
           std::to_string(static_cast<std::uint32_t>(done[i].status)));
    }
  }
}

void MessageGroup::take_receives() {
  std::array<Completion, 16> done;
  for (std::size_t count; (count = receiver_.engine().poll_cq(cq_, done)) != 0;) {
    for (std::size_t i = 0; i < count; ++i) take(done[i]);
  }
}

void MessageGroup::take(const Completion& completion) {
  const auto receive = static_cast<std::uint32_t>(completion.wr_id);
  if (receive >= posted_.size() || !posted_[receive]) {
    return find("receive " + std::to_string(completion.wr_id) + " comes back that was not posted");
  }
  posted_[receive] = false;
  if (completion.status == CompletionStatus::kFlushed && settings_.windows) return;  // the stray WRITE broke it
  if (completion.status != CompletionStatus::kSuccess) return find("a receive fails");
  const std::size_t number = completion.immediate_be >> 24;
  const std::uint32_t message = completion.immediate_be & 0xFF'FFFF;
  const std::string name = "message " + std::to_string(number) + "/" + std::to_string(message);
  if (number >= senders_.size() || message >= senders_[number].posted) return find(name + " was never sent");
  Sender& sender = senders_[number];
  const bool ud = settings_.type == QpType::kUd;
  if (!ud && completion.qp_num != receiver_.engine().qp_num(sender.peer)) find(name + " came by another queue pair");
  if (ud && completion.source_qp != sender.host->engine().qp_num(sender.qp)) find(name + " names another sender");
  const bool write = is_write(number, message);
  if ((completion.opcode == CompletionOpcode::kReceiveRdmaWithImm) != write) find(name + " is of another kind");
  const std::uint32_t header = ud ? std::uint32_t{kGrh} : 0;
  if (completion.byte_length != length_of(number, message) + header) find(name + " has another length");
  if (!holds(write ? target_at(number, message) : buffer_at(receive) + header, number, message)) {
    find(name + " is not what was sent");
  }
  const std::uint8_t times = ++sender.received[message];
  if (times > 1 && !(ud && settings_.duplicated)) find(name + " came " + std::to_string(times) + " times");
  if (!ud && message < sender.next) find(name + " came behind a later one");
  if (reliable() && message != sender.next) find(name + " came before an earlier one");
  sender.next = message + 1;
  post_receive(receive);
}

bool MessageGroup::done() const {
  return std::all_of(senders_.begin(), senders_.end(),
                     [this](const Sender& sender) { return sender.completed == settings_.messages; });
}

std::uint64_t MessageGroup::received() const {
  std::uint64_t all = 0;
  for (const Sender& sender : senders_) {
    for (const std::uint8_t times : sender.received) all += times;
  }
  return all;
}

void MessageGroup::check_guards() {
  const auto untouched = [this](std::size_t from, std::size_t count) {
    return std::all_of(memory_.begin() + static_cast<std::ptrdiff_t>(from),
                       memory_.begin() + static_cast<std::ptrdiff_t>(from + count),
                       [](std::byte byte) { return byte == kUntouched; });
  };
  bool intact = untouched(0, kGuard);
  for (std::uint32_t i = 0; i < settings_.receives; ++i)
    intact = intact && untouched(buffer_at(i + 1) - kGuard, kGuard);
  for (std::size_t number = 0; number < senders_.size(); ++number) {
    for (std::uint32_t message = 0; message < settings_.messages; ++message) {
      const std::size_t used =
          is_write(number, message) && !is_astray(number, message) ? length_of(number, message) : 0;
      const std::size_t from = target_at(number, message);
      intact = intact && untouched(from + used, target_at(number, message + 1) - from - used);
    }
    intact = intact && untouched(target_at(number, settings_.messages), place_bytes());
  }
  if (!intact) find("bytes have changed where nothing was to be written");
}

void MessageGroup::check_end(bool all_arrive) {
  check_guards();
  for (std::size_t number = 0; number < senders_.size(); ++number) {
    const Sender& sender = senders_[number];
    const std::uint32_t refused = is_astray(number, settings_.messages - 1) ? 1 : 0;
    if (refused != 0 && !sender.failed) find("a WRITE beyond its window was not refused");
    for (std::uint32_t message = 0; (reliable() || all_arrive) && message + refused < settings_.messages; ++message) {
      if (sender.received[message] == 0) find("message " + std::to_string(message) + " never came");
    }
  }
  Engine& engine = receiver_.engine();
  for (Sender& sender : senders_) {
    const bool shares = settings_.type == QpType::kUd && &sender != &senders_.front();
    if (!shares) BRDMA_CHECK(engine.destroy_qp(sender.peer).ok());
    if (sender.window != nullptr) BRDMA_CHECK(engine.dealloc_window(sender.window).ok());
    Engine& own = sender.host->engine();
    BRDMA_CHECK(own.destroy_qp(sender.qp).ok() && own.destroy_cq(sender.cq).ok() &&
                own.deregister_memory(sender.region).ok() && own.dealloc_pd(sender.pd).ok());
  }
  if (srq_ != nullptr) BRDMA_CHECK(engine.destroy_srq(srq_).ok());
  BRDMA_CHECK(engine.destroy_cq(cq_).ok() && engine.destroy_cq(bind_cq_).ok() &&
              engine.deregister_memory(region_).ok() && engine.dealloc_pd(pd_).ok());
}

std::string MessageGroup::state() const {
  std::string text;
  for (const Sender& sender : senders_) {
    text += "group: sender on " + sender.host->config().name + ": " + std::to_string(sender.posted) + " posted, " +
            std::to_string(sender.completed) + " complete of " + std::to_string(settings_.messages) + "\n";
  }
  return text;
}

}  // namespace brdma::test
