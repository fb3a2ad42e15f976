#include "victim.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace brdma::attacks {
namespace {

constexpr std::uint64_t kReadTag = std::uint64_t{1} << 32, kOtherTag = std::uint64_t{1} << 33;
constexpr double kDialEvery = 0.02, kDialPatience = 1.0, kSessionSeconds = 2.0, kLookEvery = 0.02;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void must(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

sockaddr_in address_of(const std::string& text, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  ::inet_pton(AF_INET, text.c_str(), &address.sin_addr);
  return address;
}

}  // namespace

Victim::Victim(const VictimOptions& options)
    : options_(options), random_(options.seed), memory_(std::size_t{4} << 20), channel_(rdma_create_event_channel()) {
  must(channel_ != nullptr, "rdma_create_event_channel");
  must(::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl");
  sockaddr_in any = address_of("0.0.0.0", kVictimPort);
  must(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  must(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&any)) == 0, "rdma_bind_addr");
  must(rdma_listen(listener_, 64) == 0, "rdma_listen");
}

Victim::~Victim() {
  sessions_.clear();
  if (dialing_ != nullptr) rdma_destroy_id(dialing_);
  for (ibv_mr* const region : regions_) ibv_dereg_mr(region);
  if (hostile_pd_ != nullptr) ibv_dealloc_pd(hostile_pd_);
  if (honest_pd_ != nullptr) ibv_dealloc_pd(honest_pd_);
  rdma_destroy_id(listener_);
  rdma_destroy_event_channel(channel_);
}

// The device is known with the first connection. The buffers lie in one region with the guards between them.
void Victim::make_memory(ibv_context* context) {
  writable_ = memory_.take(kWritableBytes, false);
  readable_ = memory_.take(kReadableBytes, false);
  forbidden_ = memory_.take(kReadableBytes, true);
  honest_ = memory_.take(kHonestBytes, false);
  memory_.open(writable_);
  memory_.open(honest_);
  for (std::size_t i = 0; i < kBuffers; ++i) {
    buffers_.push_back(memory_.take(kBufferBytes, true));
    free_.push_back(i);
  }
  const std::size_t first = buffers_.front().offset - VictimMemory::kGuard;
  const std::size_t pool = buffers_.back().offset + kBufferBytes + VictimMemory::kGuard / 2 - first;
  hostile_pd_ = ibv_alloc_pd(context);
  honest_pd_ = ibv_alloc_pd(context);
  must(hostile_pd_ != nullptr && honest_pd_ != nullptr, "ibv_alloc_pd");
  constexpr int kAll =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  const auto make = [this](ibv_pd* pd, VictimMemory::Area area, int access) {
    return regions_.emplace_back(registered(pd, memory_.at(area.offset), area.size, access));
  };
  VictimMemory::Area writable = writable_;
  if (options_.plant) writable.size += VictimMemory::kGuard / 2;
  offered_[0][kWritable] = make(hostile_pd_, writable, kAll);
  offered_[0][kReadable] = make(hostile_pd_, readable_, IBV_ACCESS_REMOTE_READ);
  offered_[0][kForbidden] = make(hostile_pd_, forbidden_, IBV_ACCESS_LOCAL_WRITE);
  offered_[1][kWritable] = make(honest_pd_, honest_, kAll);
  offered_[1][kReadable] = make(honest_pd_, readable_, IBV_ACCESS_REMOTE_READ);
  offered_[1][kForbidden] = offered_[0][kForbidden];
  pool_[0] = make(hostile_pd_, {first, pool}, IBV_ACCESS_LOCAL_WRITE);
  pool_[1] = make(honest_pd_, {first, pool}, IBV_ACCESS_LOCAL_WRITE);
}

Offer Victim::offer_to(bool honest) const {
  Offer offer;
  for (std::size_t i = 0; i < kOfferedRegions; ++i) {
    const ibv_mr* const region = offered_[honest ? 1 : 0][i];
    offer[i] = {reinterpret_cast<std::uintptr_t>(region->addr), region->rkey,
                static_cast<std::uint32_t>(region->length)};
  }
  return offer;
}

bool Victim::is_hostile(rdma_cm_id* id) const {
  const auto* const peer = reinterpret_cast<const sockaddr_in*>(rdma_get_peer_addr(id));
  return peer->sin_addr.s_addr == address_of(options_.hostile, 0).sin_addr.s_addr;
}

std::string Victim::run() {
  double looked = 0;
  for (;;) {
    pollfd fds[]{{STDIN_FILENO, POLLIN, 0}, {channel_->fd, POLLIN, 0}};
    must(::poll(fds, 2, 1) >= 0 || errno == EINTR, "poll");
    take_events();
    const double now = seconds();
    dial(now);
    for (auto session = sessions_.begin(); session != sessions_.end();) {
      const auto next = std::next(session);
      poll(*session);
      if (now > session->until) end(session);
      session = next;
    }
    if (now < looked + kLookEvery && fds[0].revents == 0) continue;
    looked = now;
    if (std::string found = look(); !found.empty() || fds[0].revents != 0) return found;
  }
}

std::string Victim::look() {
  if (regions_.empty()) return {};
  ++figures_.looks;
  if (std::string found = memory_.violation(); !found.empty()) return found;
  const std::uint8_t* const honest = memory_.at(honest_.offset);
  if (std::any_of(honest, honest + honest_.size, [](std::uint8_t byte) { return (byte & kHostileBit) != 0; }))
    return "the hostile peer has written to the honest one's region";
  return {};
}

void Victim::take_events() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_, &event) == 0) {
    rdma_cm_id* const id = event->id;
    const rdma_cm_event_type type = event->event;
    const auto* const data = static_cast<const std::uint8_t*>(event->param.conn.private_data);
    std::vector<std::uint8_t> said;
    if (data != nullptr) said.assign(data, data + event->param.conn.private_data_len);
    rdma_ack_cm_event(event);
    on_event(id, type, said);
  }
}

void Victim::on_event(rdma_cm_id* id, rdma_cm_event_type type, const std::vector<std::uint8_t>& said) {
  if (type == RDMA_CM_EVENT_CONNECT_REQUEST) return on_request(id, said);
  if (id == dialing_ && type == RDMA_CM_EVENT_ADDR_RESOLVED && rdma_resolve_route(id, 1000) == 0) return;
  if (id == dialing_ && type == RDMA_CM_EVENT_ROUTE_RESOLVED) return on_route(id);
  const auto session = find(id);
  if (type == RDMA_CM_EVENT_ESTABLISHED && session != sessions_.end()) {
    if (session->role == Role::kConnected) ++figures_.connected;
    session->until = session->honest() ? seconds() + 3600 : seconds() + kSessionSeconds;
    if (const auto offer = parse_offer(said)) work_on(*session, *offer);
    return;
  }
  if (session != sessions_.end()) return end(session);
  if (id == dialing_) {
    rdma_destroy_id(id);
    dialing_ = nullptr;
  }
}

void Victim::on_request(rdma_cm_id* id, const std::vector<std::uint8_t>& said) {
  if (regions_.empty()) make_memory(id->verbs);
  const bool honest = !is_hostile(id);
  const Role role = honest ? Role::kHonest : Role::kAccepted;
  end_oldest(role);
  try {
    Session& session = sessions_.emplace_back();
    session.role = role;
    session.until = seconds() + kSessionSeconds;
    session.connection = std::make_unique<VerbsConnection>(id, honest ? honest_pd_ : hostile_pd_);
  } catch (const std::runtime_error&) {
    sessions_.pop_back();
    return;
  }
  Session& session = sessions_.back();
  for (std::uint32_t i = 0; i < VerbsConnection::kReceives; ++i) post_receive(session);
  const auto bytes = emit_offer(offer_to(honest));
  rdma_conn_param answer = connection_parameters(bytes);
  if (rdma_accept(id, &answer) != 0) return end(std::prev(sessions_.end()));
  ++(honest ? figures_.honest : figures_.accepted);
  // It uses the hostile peer's offer as soon as allowed.
  const auto offer = parse_offer(said);
  if (!honest && offer) work_on(session, *offer);
}

// One connection at a time is begun towards the hostile peer.
void Victim::dial(double now) {
  if (regions_.empty()) return;
  if (dialing_ != nullptr) {
    if (now < dialed_ + kDialPatience) return;
    rdma_destroy_id(dialing_);
    dialing_ = nullptr;
  }
  if (now < dialed_ + kDialEvery) return;
  dialed_ = now;
  sockaddr_in address = address_of(options_.hostile, kHostilePort);
  if (rdma_create_id(channel_, &dialing_, nullptr, RDMA_PS_TCP) != 0) {
    dialing_ = nullptr;
  } else if (rdma_resolve_addr(dialing_, nullptr, reinterpret_cast<sockaddr*>(&address), 1000) != 0) {
    rdma_destroy_id(dialing_);
    dialing_ = nullptr;
  }
}

void Victim::on_route(rdma_cm_id* id) {
  dialing_ = nullptr;
  end_oldest(Role::kConnected);
  try {
    Session& session = sessions_.emplace_back();
    session.role = Role::kConnected;
    session.connection = std::make_unique<VerbsConnection>(id, hostile_pd_);
  } catch (const std::runtime_error&) {
    sessions_.pop_back();
    return;
  }
  Session& session = sessions_.back();
  session.until = seconds() + kSessionSeconds;
  for (std::uint32_t i = 0; i < VerbsConnection::kReceives / 2; ++i) post_receive(session);
  const auto bytes = emit_offer(offer_to(false));
  rdma_conn_param request = connection_parameters(bytes);
  if (rdma_connect(id, &request) != 0) end(std::prev(sessions_.end()));
}

// Uses the peer's offer, whatever it is.
void Victim::work_on(Session& session, const Offer& offer) {
  static constexpr ibv_wr_opcode kKinds[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_RDMA_READ,
                                             IBV_WR_ATOMIC_FETCH_AND_ADD};
  for (int i = 0; i < 6; ++i) {
    VerbsConnection::Work work;
    work.opcode = kKinds[below(std::size(kKinds))];
    const bool reads = work.opcode == IBV_WR_RDMA_READ || work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    const RegionOffer& region = offer[kWritable];
    std::size_t size = 1 + below(kBufferBytes);
    work.remote = region.address + below(std::max<std::uint32_t>(region.length, 1));
    work.key = region.key;
    if (work.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
      size = 8;
      work.remote &= ~std::uint64_t{7};
    }
    std::uint64_t id = kOtherTag;
    if (reads) {
      const auto buffer = open_buffer(session);
      if (!buffer) return;
      id = kReadTag | *buffer;
      work.sge = sge_of(memory_.at(buffers_[*buffer].offset), size, pool_[0]);
    } else {
      work.sge = sge_of(memory_.at(readable_.offset), size, offered_[0][kReadable]);
    }
    if (!session.connection->send(id, work)) return;
  }
}

void Victim::post_receive(Session& session) {
  const auto buffer = open_buffer(session);
  if (!buffer) return;
  const ibv_sge sge = sge_of(memory_.at(buffers_[*buffer].offset), kBufferBytes, pool_[session.honest() ? 1 : 0]);
  if (!session.connection->receive(*buffer, sge)) close_buffer(session, *buffer);
}

void Victim::poll(Session& session) {
  std::vector<ibv_wc> done;
  if (!session.connection->poll(done)) session.until = -1;
  for (const ibv_wc& completion : done) take(session, completion);
}

void Victim::take(Session& session, const ibv_wc& done) {
  if (done.status != IBV_WC_SUCCESS) {
    ++figures_.failed;
    return;
  }
  ++figures_.completed;
  if ((done.wr_id & kOtherTag) != 0) return;
  close_buffer(session, done.wr_id & (kReadTag - 1));
  if ((done.wr_id & kReadTag) != 0) return;
  ++figures_.messages;
  post_receive(session);
  VerbsConnection::Work answer;
  answer.sge = sge_of(memory_.at(readable_.offset), 64, offered_[session.honest() ? 1 : 0][kReadable]);
  if (!session.connection->send(kOtherTag, answer)) session.until = -1;
}

std::optional<std::size_t> Victim::open_buffer(Session& session) {
  if (free_.empty()) return std::nullopt;
  const std::size_t buffer = free_.front();
  free_.pop_front();
  memory_.open(buffers_[buffer]);
  session.buffers.push_back(buffer);
  return buffer;
}

void Victim::close_buffer(Session& session, std::size_t buffer) {
  if (std::erase(session.buffers, buffer) == 0) throw std::runtime_error("a completion of what was never posted");
  memory_.close(buffers_[buffer]);
  free_.push_back(buffer);
}

void Victim::end(Sessions::iterator session) {
  session->connection.reset();  // from here on nothing may be written for it
  while (!session->buffers.empty()) close_buffer(*session, session->buffers.back());
  sessions_.erase(session);
}

void Victim::end_oldest(Role role) {
  const auto is = [role](const Session& session) { return session.role == role; };
  if (static_cast<std::size_t>(std::count_if(sessions_.begin(), sessions_.end(), is)) < kSessionsMax) return;
  end(std::find_if(sessions_.begin(), sessions_.end(), is));
}

Victim::Sessions::iterator Victim::find(const rdma_cm_id* id) {
  return std::find_if(sessions_.begin(), sessions_.end(),
                      [id](const Session& session) { return session.connection->id() == id; });
}

}  // namespace brdma::attacks
