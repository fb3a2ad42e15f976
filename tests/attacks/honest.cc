#include "honest.h"

#include <arpa/inet.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <stdexcept>
#include <vector>

#include "verbs_connection.h"

namespace brdma::attacks {
namespace {

constexpr std::size_t kBytes = 8192, kAnswerBytes = 64;
constexpr int kRoundsPerConnection = 50;
constexpr double kPatience = 30;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error("the honest peer: " + what); }

bool over() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  return ::poll(&input, 1, 0) == 1;
}

class HonestPeer {
 public:
  HonestPeer(rdma_event_channel* channel, const std::string& victim) : channel_(channel) {
    rdma_cm_id* id = nullptr;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(kVictimPort);
    ::inet_pton(AF_INET, victim.c_str(), &address.sin_addr);
    if (rdma_create_id(channel_, &id, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id");
    if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), 5000) != 0) fail("rdma_resolve_addr");
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    if (rdma_resolve_route(id, 5000) != 0) fail("rdma_resolve_route");
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    pd_ = ibv_alloc_pd(id->verbs);
    region_ = registered(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
    connection_ = std::make_unique<VerbsConnection>(id, pd_);
    receive();
    rdma_conn_param request = connection_parameters({});
    if (rdma_connect(id, &request) != 0) fail("rdma_connect");
    expect(RDMA_CM_EVENT_ESTABLISHED);
  }
  ~HonestPeer() {
    if (connection_) rdma_disconnect(connection_->id());
    connection_.reset();
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (pd_ != nullptr) ibv_dealloc_pd(pd_);
  }
  HonestPeer(const HonestPeer&) = delete;
  HonestPeer& operator=(const HonestPeer&) = delete;

  // WRITE, READ it back, SEND, and the reply to that.
  void round(std::mt19937_64& random) {
    std::uint8_t *const written = memory_.data(), *const read = written + kBytes;
    for (std::size_t i = 0; i < kBytes; ++i) written[i] = static_cast<std::uint8_t>(random() & 0x7F);
    const std::uint64_t place = offer_[kWritable].address + random() % (offer_[kWritable].length - kBytes);
    post({IBV_WR_RDMA_WRITE, sge_of(written, kBytes, region_), place, 0, offer_[kWritable].key});
    post({IBV_WR_RDMA_READ, sge_of(read, kBytes, region_), place, 0, offer_[kWritable].key});
    post({IBV_WR_SEND, sge_of(written, kAnswerBytes, region_), 0, 0, 0});
    wait(4);
    if (std::memcmp(written, read, kBytes) != 0) fail("reads other bytes than it has written");
    const std::uint8_t* const answer = read + kBytes;
    for (std::size_t i = 0; i < kAnswerBytes; ++i) {
      if (answer[i] != static_cast<std::uint8_t>((i * 37) & 0x7F)) fail("is answered with other bytes");
    }
    receive();
  }

 private:
  void post(const VerbsConnection::Work& work) {
    if (!connection_->send(1, work)) fail("ibv_post_send");
  }
  void receive() {
    if (!connection_->receive(2, sge_of(memory_.data() + 2 * kBytes, kAnswerBytes, region_))) fail("ibv_post_recv");
  }
  void wait(std::size_t count) {
    std::vector<ibv_wc> done;
    for (const double end = seconds() + kPatience; done.size() < count;) {
      const bool good = connection_->poll(done);
      const auto bad =
          std::find_if(done.begin(), done.end(), [](const ibv_wc& wc) { return wc.status != IBV_WC_SUCCESS; });
      if (!good) fail(bad == done.end() ? "ibv_poll_cq" : std::string("completion: ") + ibv_wc_status_str(bad->status));
      if (seconds() > end) fail("is not answered");
    }
  }
  void expect(rdma_cm_event_type wanted) {
    rdma_cm_event* event = nullptr;
    pollfd readable{channel_->fd, POLLIN, 0};
    if (::poll(&readable, 1, static_cast<int>(kPatience * 1000)) != 1) fail("no event of its connection");
    if (rdma_get_cm_event(channel_, &event) != 0) fail("rdma_get_cm_event");
    const rdma_cm_event_type type = event->event;
    const auto* const said = static_cast<const std::uint8_t*>(event->param.conn.private_data);
    const auto offer = said == nullptr ? std::nullopt : parse_offer({said, event->param.conn.private_data_len});
    const int status = event->status;
    rdma_ack_cm_event(event);
    if (type != wanted) fail(std::string(rdma_event_str(type)) + ", status " + std::to_string(status));
    if (wanted != RDMA_CM_EVENT_ESTABLISHED) return;
    if (!offer || (*offer)[kWritable].length <= kBytes) fail("is offered nothing");
    offer_ = *offer;
  }

  rdma_event_channel* channel_;
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(2 * kBytes + kAnswerBytes);
  ibv_pd* pd_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::unique_ptr<VerbsConnection> connection_;
  Offer offer_{};
};

}  // namespace

HonestFigures talk_honestly(const std::string& victim, std::uint64_t seed) {
  HonestFigures figures;
  std::mt19937_64 random{seed};
  while (!over()) {
    rdma_event_channel* const channel = rdma_create_event_channel();
    {
      double began = seconds();
      HonestPeer peer{channel, victim};
      ++figures.connections;
      figures.longest_connect = std::max(figures.longest_connect, seconds() - began);
      for (int i = 0; i < kRoundsPerConnection && !over(); ++i) {
        began = seconds();
        peer.round(random);
        ++figures.rounds;
        figures.longest = std::max(figures.longest, seconds() - began);
        ::usleep(1000);
      }
    }
    rdma_destroy_event_channel(channel);
  }
  return figures;
}

}  // namespace brdma::attacks
