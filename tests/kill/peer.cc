// A program for RDMA-CM and verbs whose peers die: a server that sends back its input, and a client that checks it.
// Everything waits on descriptors, without a bound: a process that gets no event of its peer's end hangs, and is found.
// Exit codes: 0 all done, 2 a reported failure, 1 wrong data or a call that may not fail.
//   kill_peer server PORT                         "listening" on standard output; ends, once it has no connection
//                                                 left, when standard input does
//   kill_peer client PORT CONNECTIONS MESSAGES BYTES   "connected" after the first
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace {

constexpr std::size_t kBytesMax = 65'536;
constexpr int kTold = 2, kWrong = 1;

[[noreturn]] void end(int code, const char* what) {
  std::fprintf(stderr, "kill_peer: %s (%s)\n", what, std::strerror(errno));
  std::_Exit(code);
}

void must(bool done, const char* what) {
  if (!done) end(kTold, what);
}

sockaddr_in loopback(const char* port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

void without_waiting(int fd) { must(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) == 0, "fcntl"); }

rdma_event_channel* new_channel() {
  rdma_event_channel* const channel = rdma_create_event_channel();
  must(channel != nullptr, "rdma_create_event_channel");
  without_waiting(channel->fd);
  return channel;
}

// One connection: two buffers, and completions with one descriptor to wait on.
class Connection {
 public:
  explicit Connection(rdma_cm_id* id) : id_(id), buffer_(2 * kBytesMax) {
    channel_ = ibv_create_comp_channel(id->verbs);
    must(channel_ != nullptr, "ibv_create_comp_channel");
    without_waiting(channel_->fd);
    queue_ = ibv_create_cq(id->verbs, 8, nullptr, channel_, 0);
    must(queue_ != nullptr, "ibv_create_cq");
    ibv_qp_init_attr attributes{};
    attributes.send_cq = attributes.recv_cq = queue_;
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {2, 2, 1, 1, 0};
    must(rdma_create_qp(id, id->pd, &attributes) == 0, "rdma_create_qp");
    region_ = ibv_reg_mr(id->pd, buffer_.data(), buffer_.size(), int{IBV_ACCESS_LOCAL_WRITE});
    must(region_ != nullptr && ibv_req_notify_cq(queue_, 0) == 0, "ibv_reg_mr");
    receive();
  }
  ~Connection() {
    rdma_destroy_qp(id_);
    ibv_dereg_mr(region_);
    ibv_destroy_cq(queue_);
    ibv_destroy_comp_channel(channel_);
    rdma_destroy_id(id_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  [[nodiscard]] rdma_cm_id* id() const { return id_; }
  [[nodiscard]] int fd() const { return channel_->fd; }
  [[nodiscard]] std::uint8_t* received() { return buffer_.data(); }
  [[nodiscard]] std::uint8_t* to_send() { return buffer_.data() + kBytesMax; }

  bool receive() { return rdma_post_recv(id_, nullptr, received(), kBytesMax, region_) == 0; }
  bool send(std::size_t bytes) {
    return rdma_post_send(id_, nullptr, to_send(), bytes, region_, IBV_SEND_SIGNALED) == 0;
  }
  // Takes completions. False: an error. `length` gets the length of a received message.
  bool complete(std::size_t& length) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(channel_, &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
    if (ibv_req_notify_cq(queue_, 0) != 0) return false;
    ibv_wc done{};
    while (ibv_poll_cq(queue_, 1, &done) > 0) {
      if (done.status != IBV_WC_SUCCESS) return false;
      if (done.opcode == IBV_WC_RECV) length = done.byte_len;
    }
    return true;
  }

 private:
  rdma_cm_id* id_;
  std::vector<std::uint8_t> buffer_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* region_ = nullptr;
};

// The device's last event: nothing more will come.
void take_async(ibv_context* device) {
  ibv_async_event event{};
  without_waiting(device->async_fd);
  while (ibv_get_async_event(device, &event) == 0) {
    const bool fatal = event.event_type == IBV_EVENT_DEVICE_FATAL;
    ibv_ack_async_event(&event);
    if (fatal) end(kTold, "the device is gone");
  }
}

rdma_conn_param parameters() {
  rdma_conn_param parameters{};
  parameters.retry_count = 7;
  parameters.rnr_retry_count = 7;
  return parameters;
}

// --- server ---

class Server {
 public:
  explicit Server(const char* port) : channel_(new_channel()) {
    sockaddr_in address = loopback(port);
    must(rdma_create_id(channel_, &listener_, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    must(rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&address)) == 0, "rdma_bind_addr");
    must(rdma_listen(listener_, 16) == 0, "rdma_listen");
    std::puts("listening");
    std::fflush(stdout);
  }

  int run() {
    while (!stopping_ || !connections_.empty()) {
      std::vector<pollfd> fds{{stopping_ ? -1 : STDIN_FILENO, POLLIN, 0},
                              {channel_->fd, POLLIN, 0},
                              {listener_->verbs->async_fd, POLLIN, 0}};
      for (const auto& connection : connections_) fds.push_back({connection->fd(), POLLIN, 0});
      must(::poll(fds.data(), fds.size(), -1) >= 0 || errno == EINTR, "poll");
      if (fds[0].revents != 0) stopping_ = true;
      if (fds[2].revents != 0) take_async(listener_->verbs);
      for (std::size_t i = 3; i < fds.size(); ++i) {
        if (fds[i].revents != 0) echo(fds[i].fd);
      }
      take_events();
    }
    rdma_destroy_id(listener_);
    rdma_destroy_event_channel(channel_);
    return 0;
  }

 private:
  void echo(int fd) {
    const auto found =
        std::find_if(connections_.begin(), connections_.end(), [fd](const auto& c) { return c->fd() == fd; });
    if (found == connections_.end()) return;
    Connection& connection = **found;
    std::size_t length = 0;
    bool good = connection.complete(length);
    if (good && length > 0) {
      std::memcpy(connection.to_send(), connection.received(), length);
      good = connection.receive() && connection.send(length);
    }
    if (!good) connections_.erase(found);
  }

  void take_events() {
    rdma_cm_event* event = nullptr;
    while (rdma_get_cm_event(channel_, &event) == 0) {
      rdma_cm_id* const id = event->id;
      const rdma_cm_event_type type = event->event;
      rdma_ack_cm_event(event);
      if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
        connections_.push_back(std::make_unique<Connection>(id));
        rdma_conn_param answer = parameters();
        if (rdma_accept(id, &answer) != 0) drop(id);
      } else if (type != RDMA_CM_EVENT_ESTABLISHED) {
        drop(id);
      }
    }
  }
  void drop(const rdma_cm_id* id) {
    std::erase_if(connections_, [id](const auto& c) { return c->id() == id; });
  }

  rdma_event_channel* channel_;
  rdma_cm_id* listener_ = nullptr;
  std::vector<std::unique_ptr<Connection>> connections_;
  bool stopping_ = false;
};

// --- client ---

// The next event must be of that type.
void expect(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  pollfd readable{channel->fd, POLLIN, 0};
  while (rdma_get_cm_event(channel, &event) != 0) {
    must(errno == EAGAIN, "rdma_get_cm_event");
    must(::poll(&readable, 1, -1) >= 0 || errno == EINTR, "poll");
  }
  const rdma_cm_event_type type = event->event;
  const int status = event->status;  // of a refusal: its reason (IBTA 12.6.7.2)
  rdma_ack_cm_event(event);
  if (type == wanted) return;
  std::fprintf(stderr, "kill_peer: status %d\n", status);
  end(kTold, rdma_event_str(type));
}

// Waits for the answer; any event that rules it out ends the program.
std::size_t wait_for_answer(Connection& connection, rdma_event_channel* channel) {
  for (;;) {
    pollfd fds[]{{connection.fd(), POLLIN, 0}, {channel->fd, POLLIN, 0}, {connection.id()->verbs->async_fd, POLLIN, 0}};
    must(::poll(fds, 3, -1) >= 0 || errno == EINTR, "poll");
    std::size_t length = 0;
    if (!connection.complete(length)) end(kTold, "a work request failed");
    if (length > 0) return length;
    if (fds[2].revents != 0) take_async(connection.id()->verbs);
    rdma_cm_event* event = nullptr;
    if (fds[1].revents != 0 && rdma_get_cm_event(channel, &event) == 0) end(kTold, rdma_event_str(event->event));
  }
}

void talk(rdma_event_channel* channel, char** arguments, int number) {
  rdma_cm_id* id = nullptr;
  sockaddr_in address = loopback(arguments[0]);
  const int messages = std::atoi(arguments[2]);
  const auto bytes = static_cast<std::size_t>(std::atoi(arguments[3]));
  must(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  must(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 2000) == 0, "rdma_resolve_addr");
  expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  must(rdma_resolve_route(id, 2000) == 0, "rdma_resolve_route");
  expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  Connection connection(id);
  rdma_conn_param request = parameters();
  must(rdma_connect(id, &request) == 0, "rdma_connect");
  expect(channel, RDMA_CM_EVENT_ESTABLISHED);
  if (number == 0) {
    std::puts("connected");
    std::fflush(stdout);
  }
  for (int message = 0; message < messages; ++message) {
    for (std::size_t i = 0; i < bytes; ++i) {
      connection.to_send()[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(message * 31 + number));
    }
    must(connection.send(bytes), "ibv_post_send");
    const std::size_t length = wait_for_answer(connection, channel);
    if (length != bytes || std::memcmp(connection.received(), connection.to_send(), bytes) != 0) {
      end(kWrong, "another message came back");
    }
    must(connection.receive(), "ibv_post_recv");
  }
  must(rdma_disconnect(id) == 0, "rdma_disconnect");
  expect(channel, RDMA_CM_EVENT_DISCONNECTED);
}

}  // namespace

int main(int count, char** arguments) {
  if (count == 3 && std::strcmp(arguments[1], "server") == 0) return Server(arguments[2]).run();
  if (count != 6 || std::strcmp(arguments[1], "client") != 0) return kWrong;
  rdma_event_channel* const channel = new_channel();
  for (int number = 0; number < std::atoi(arguments[3]); ++number) talk(channel, arguments + 2, number);
  rdma_destroy_event_channel(channel);
  return 0;
}
