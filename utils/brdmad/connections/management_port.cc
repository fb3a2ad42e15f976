#include "connections/management_port.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <type_traits>

namespace brdma::daemon {
namespace {

constexpr int kBufferBytes = 1 << 20;  // a few thousand MADs
constexpr std::uint32_t kDatagramsAtOnce = 256;
constexpr std::chrono::milliseconds kHold{250};
constexpr std::size_t kHeldMax = 256;
constexpr unsigned kFarewells = 5;
// Far more than a process needs to notice the end of its connection and to connect again.
constexpr std::chrono::seconds kTakingOver{1};

// Our id in a message that answers one of ours; nullopt: it begins a connection.
std::optional<std::uint32_t> our_id(const wire::CmMessage& message) {
  return std::visit(
      [](const auto& m) -> std::optional<std::uint32_t> {
        using Message = std::remove_cvref_t<decltype(m)>;
        if constexpr (std::is_same_v<Message, wire::CmReq> || std::is_same_v<Message, wire::CmSidrReq>) {
          return std::nullopt;
        } else if constexpr (std::is_same_v<Message, wire::CmSidrRep>) {
          return m.request_id;
        } else {
          return m.remote_comm_id;
        }
      },
      message);
}

// The sender's own id in a message that it sends; 0: the message has none.
std::uint32_t senders_id(const wire::CmMessage& message) {
  return std::visit(
      [](const auto& m) -> std::uint32_t {
        using Message = std::remove_cvref_t<decltype(m)>;
        if constexpr (std::is_same_v<Message, wire::CmSidrReq>) {
          return m.request_id;
        } else if constexpr (std::is_same_v<Message, wire::CmSidrRep>) {
          return 0;
        } else {
          return m.local_comm_id;
        }
      },
      message);
}

std::optional<std::uint64_t> service_of(const wire::CmMessage& message) {
  if (const auto* req = std::get_if<wire::CmReq>(&message)) return req->service_id;
  if (const auto* req = std::get_if<wire::CmSidrReq>(&message)) return req->service_id;
  return std::nullopt;
}

constexpr wire::PortSpace space_of(std::uint64_t service) {
  return static_cast<wire::PortSpace>(static_cast<std::uint8_t>(service >> 16));
}
constexpr std::uint16_t port_of(std::uint64_t service) { return static_cast<std::uint16_t>(service); }
constexpr std::uint16_t prefix_of(std::uint32_t id) { return static_cast<std::uint16_t>(id >> 16); }
cm::Endpoints endpoints_of(const io::CmFrame& frame) { return {frame.local, frame.remote, frame.scope}; }

}  // namespace

ManagementPort::ManagementPort(int socket_fd, bool dual_stack, Seed seed, bool takes_over, ConnectionTable* table,
                               Lives lives, StoppedPeers::Look look)
    : socket_(socket_fd, dual_stack, {.gro = false, .buffer_bytes = kBufferBytes}),
      random_(seed, "management"),
      ports_(seed),
      takes_over_(takes_over),
      lives_(std::move(lives)),
      live_(table),
      stopped_(std::move(look)) {
  if (takes_over) processes_known_at_ = Clock::now() + kTakingOver;
  if (socket_fd < 0) return;
  auto transmit = io::TransmitSocket::open({.gso = false, .connect = false});
  if (transmit) {
    transmit_.emplace(std::move(transmit).value());
  } else {
    spdlog::error("no connection management: {}", transmit.reason().message);
  }
}

std::optional<std::uint16_t> ManagementPort::attach(std::uint16_t wanted, Process process, Deliver deliver) {
  constexpr unsigned kTries = 1000;
  for (unsigned i = 0; i < kTries; ++i, wanted = static_cast<std::uint16_t>(random_.next())) {
    // Connections of a process that is not back yet must not go to another one.
    if (wanted == 0 || processes_.contains(wanted) || (i > 0 && live_.has(wanted))) continue;
    processes_.emplace(wanted, Attached{std::move(process), std::move(deliver)});
    return wanted;
  }
  return std::nullopt;
}

void ManagementPort::detach(std::uint16_t prefix) {
  for (LiveConnections::Farewell& farewell : live_.take(prefix))
    farewells_.push_back({std::move(farewell), kFarewells});
  const auto process = processes_.find(prefix);
  if (process != processes_.end()) {
    ended_ += process->second.process.counters;
    processes_.erase(process);
  }
  ports_.release_all(prefix);
}

void ManagementPort::report(std::uint16_t prefix, const cm::Counters& counters) {
  const auto process = processes_.find(prefix);
  if (process != processes_.end()) process->second.process.counters = counters;
}

std::vector<const ManagementPort::Process*> ManagementPort::all_processes() const {
  std::vector<const Process*> all;
  for (const auto& [prefix, attached] : processes_) all.push_back(&attached.process);
  return all;
}

cm::Counters ManagementPort::process_counters() const {
  cm::Counters sum = ended_;
  for (const auto& [prefix, attached] : processes_) sum += attached.process.counters;
  return sum;
}

// As the engine does for a standard peer: solves for the IP identification, which no socket shows.
bool ManagementPort::icrc_holds(const Datagram& datagram) {
  const wire::IcrcPath path{
      .source = datagram.source, .destination = datagram.destination, .source_port = datagram.source_port};
  const std::uint32_t difference = wire::packet_icrc(path, datagram.bytes) ^ wire::stored_icrc(datagram.bytes);
  std::uint16_t identification = 0;
  return difference == 0 ||
         (datagram.source.is_v4() && solver_.solve(difference, datagram.bytes.size(), identification));
}

std::uint32_t ManagementPort::receive() {
  std::uint32_t count = 0;
  io::ReceivedMessage message;
  while (count < kDatagramsAtOnce && socket_.receive(message)) {
    ++count;
    message.datagram.bytes = message.bytes;
    if (take_stopped_query(message)) continue;
    const auto mad = wire::parse_gsi_packet(message.bytes);
    if (!mad || !icrc_holds(message.datagram)) {
      ++counters_.bad;
      continue;
    }
    pass_on({message.datagram.destination, message.datagram.source, message.scope}, *mad);
  }
  return count;
}

bool ManagementPort::deliver(std::uint16_t prefix, const io::CmFrame& frame) {
  const auto process = processes_.find(prefix);
  if (process == processes_.end()) return false;
  if (process->second.deliver(frame)) {
    ++counters_.received;
    live_.received(endpoints_of(frame), *wire::parse_cm(frame.mad));
  } else {
    ++counters_.unread;
  }
  return true;
}

void ManagementPort::pass_on(const cm::Endpoints& endpoints, wire::MadBytes bytes) {
  const auto mad = wire::parse_cm(bytes);
  if (!mad) {
    ++counters_.bad;
    return;
  }
  messages_.received(endpoints.local, endpoints.remote, *mad);
  io::CmFrame frame{
      .kind = io::CmFrameKind::kMad, .scope = endpoints.scope, .local = endpoints.local, .remote = endpoints.remote};
  std::copy(bytes.begin(), bytes.end(), frame.mad.begin());
  if (const auto* drep = std::get_if<wire::CmDrep>(&mad->message)) on_disconnect_reply(endpoints, *drep);
  if (const auto service = service_of(mad->message)) {
    if (deliver_to_listener(*service, frame)) return;
    if (held_.size() < kHeldMax && expects_listener(*service, endpoints.local)) {
      held_.push_back({std::max(Clock::now() + kHold, processes_known_at_), *service, frame});
      return;
    }
    return refuse(frame, *mad);
  }
  const std::uint32_t id = *our_id(mad->message);
  if (id == 0) {  // a peer that gave up before it had our id: it means the process that remembers its request
    for (const auto& [prefix, process] : processes_) (void)deliver(prefix, frame);
    return;
  }
  if (!deliver(prefix_of(id), frame)) refuse(frame, *mad);
}

bool ManagementPort::deliver_to_listener(std::uint64_t service, const io::CmFrame& frame) {
  const auto listener = ports_.listener(space_of(service), frame.local, port_of(service));
  return listener && service == wire::service_id(space_of(service), port_of(service)) && deliver(*listener, frame);
}

bool ManagementPort::expects_listener(std::uint64_t service, const IpAddress& address) const {
  if (expects_processes()) return true;
  return service == wire::service_id(space_of(service), port_of(service)) &&
         ports_.was_used(space_of(service), address, port_of(service));
}

// The peer of a process that is gone is notified.
void ManagementPort::on_disconnect_reply(const cm::Endpoints& endpoints, const wire::CmDrep& drep) {
  std::erase_if(farewells_, [&](const Leaving& leaving) {
    const auto& dreq = std::get<wire::CmDreq>(leaving.farewell.mad.message);
    return dreq.local_comm_id == drep.remote_comm_id && dreq.remote_comm_id == drep.local_comm_id &&
           leaving.farewell.endpoints == endpoints;
  });
}

// A process that has not come back by now and has no lease died while no worker saw it.
void ManagementPort::end_of_taking_over() {
  if (!takes_over_ || expects_processes()) return;
  takes_over_ = false;
  for (const auto& [prefix, pid] : live_.processes()) {
    if (processes_.contains(prefix)) continue;
    if (lives_ && lives_(pid)) {
      takes_over_ = true;  // perhaps stopped
    } else {
      detach(prefix);
    }
  }
}

void ManagementPort::look() {
  end_of_taking_over();
  look_at_held();
  say_farewells();
}

void ManagementPort::say_farewells() {
  for (Leaving& leaving : farewells_) {
    --leaving.tries_left;
    std::array<std::byte, wire::kMadSize> bytes;
    wire::emit_cm(leaving.farewell.mad, bytes);
    transmit(leaving.farewell.endpoints, bytes);
  }
  std::erase_if(farewells_, [](const Leaving& leaving) { return leaving.tries_left == 0; });
}

void ManagementPort::look_at_held() {
  const auto now = Clock::now();
  for (std::size_t count = held_.size(); count > 0; --count) {
    const Held held = held_.front();
    held_.pop_front();
    if (deliver_to_listener(held.service, held.frame)) continue;
    if (now < held.until) {
      held_.push_back(held);
    } else {
      refuse(held.frame, *wire::parse_cm(held.frame.mad));
    }
  }
}

// The message has no destination process. Messages that need no answer are only counted.
void ManagementPort::refuse(const io::CmFrame& frame, const wire::CmMad& mad) {
  std::optional<wire::CmMessage> answer;
  if (expects_processes()) {
    ++counters_.nobody;
    return;
  }
  if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) {
    answer = wire::CmRej{.remote_comm_id = req->local_comm_id, .reason = wire::reject::kInvalidServiceId};
  } else if (const auto* sidr = std::get_if<wire::CmSidrReq>(&mad.message)) {
    answer = wire::CmSidrRep{.request_id = sidr->request_id, .status = 1, .service_id = sidr->service_id};
  } else if (const auto* rep = std::get_if<wire::CmRep>(&mad.message)) {
    answer = wire::CmRej{.local_comm_id = rep->remote_comm_id,
                         .remote_comm_id = rep->local_comm_id,
                         .answered = wire::CmAnswered::kRep,
                         .reason = wire::reject::kInvalidCommId};
  } else if (const auto* dreq = std::get_if<wire::CmDreq>(&mad.message)) {
    answer = wire::CmDrep{.local_comm_id = dreq->remote_comm_id, .remote_comm_id = dreq->local_comm_id};
  }
  if (!answer) {
    ++counters_.nobody;
    return;
  }
  ++counters_.refused;
  std::array<std::byte, wire::kMadSize> bytes;
  wire::emit_cm({.transaction = mad.transaction, .message = *answer}, bytes);
  messages_.sent(frame.local, frame.remote, {.transaction = mad.transaction, .message = *answer});
  transmit(endpoints_of(frame), bytes);
}

void ManagementPort::send(std::uint16_t prefix, const io::CmFrame& frame) {
  const auto mad = wire::parse_cm(frame.mad);
  const std::uint32_t id = mad ? senders_id(mad->message) : 0;
  if (!mad || (id != 0 && prefix_of(id) != prefix)) {
    ++counters_.forged;
    return;
  }
  ++counters_.sent;
  messages_.sent(frame.local, frame.remote, *mad);
  const auto process = processes_.find(prefix);
  live_.sent(process != processes_.end() ? process->second.process.pid : 0, endpoints_of(frame), *mad);
  transmit(endpoints_of(frame), frame.mad);
}

void ManagementPort::transmit(const cm::Endpoints& endpoints, wire::MadBytes mad) {
  std::array<std::byte, wire::kGsiPacketSize> packet;
  wire::emit_gsi_packet(mad, Psn{psn_++}, packet);
  if (!transmit_packet(endpoints, packet, /*standard=*/true)) ++counters_.not_sent;
}

// A control packet's ICRC is complete (docs/reference/wire.md#icrc). False: the message is something else.
bool ManagementPort::take_stopped_query(const io::ReceivedMessage& message) {
  const Datagram& datagram = message.datagram;
  const auto query = wire::parse_stopped_query_packet(datagram.bytes);
  if (!query) return false;
  const wire::IcrcPath path{
      .source = datagram.source, .destination = datagram.destination, .source_port = datagram.source_port};
  if (wire::packet_icrc(path, datagram.bytes) != wire::stored_icrc(datagram.bytes)) {
    ++counters_.bad;
    return true;
  }
  if (const auto reply = stopped_.reply(*query, Clock::now())) {
    std::array<std::byte, wire::kStoppedReplyPacketSize> packet;
    wire::emit_stopped_reply_packet(*reply, query->source_qpn, packet);
    // Counts as lost where it is refused: the requester asks again.
    (void)transmit_packet({datagram.destination, datagram.source, message.scope}, packet, /*standard=*/false);
  }
  return true;
}

bool ManagementPort::transmit_packet(const cm::Endpoints& endpoints, MutableBytes packet, bool standard) {
  if (!transmit_) return false;
  const wire::IcrcPath path{
      .source = endpoints.local, .destination = endpoints.remote, .source_port = transmit_->port()};
  store_le32(packet.data() + packet.size() - wire::kIcrcSize, wire::packet_icrc(path, packet));
  const Slice slice{packet.data(), packet.size()};
  const Transmit batch{.source = endpoints.local,
                       .destination = endpoints.remote,
                       .standard = standard,
                       .segments = 1,
                       .segment_bytes = static_cast<std::uint16_t>(packet.size()),
                       .bytes = static_cast<std::uint32_t>(packet.size()),
                       .slices = {&slice, 1}};
  transmit_->set_interface(endpoints.scope);
  const io::SendReport report = transmit_->send(batch);
  if (report.blocked) (void)transmit_->give_up(batch);  // counts as lost: it is repeated
  return !report.blocked && report.refused == 0;
}

}  // namespace brdma::daemon
