// Input: clients' data for brdmad's socket: leases, RDMA-CM, queries, answers to queries; well formed, with bytes
// changed, truncated, many at once, in any order on four connections, of which one reads nothing. The sessions are the
// worker's own, with a table of leases without receivers. Invariants:
//   - a lease and a port belong to a connection: when all are closed, there is none, and no session;
//   - a client that is refused, or malformed, costs nobody else anything.
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "connections/cm_session.h"
#include "connections/management_port.h"
#include "input_reader.h"
#include "io/cm/cm_protocol.h"
#include "io/daemon/lease_protocol.h"
#include "lease/gid_book.h"
#include "lease/lease_book.h"
#include "queries/watch.h"
#include "worker/session.h"

namespace {

using namespace brdma;          // a test's entry point, no header
using namespace brdma::daemon;  // likewise
using fuzz::InputReader;

constexpr std::size_t kOperationsMax = 200, kClients = 4;
constexpr std::size_t kDeaf = 0;  // the client that reads nothing
// None that waits for events: that takes 4 s, and time does not pass here.
constexpr const char* kQuestions[] = {
    R"({"query":"version"})",
    R"({"query":"config"})",
    R"({"query":"leases"})",
    R"({"query":"statistics"})",
    R"({"query":"cm_ids"})",
    R"({"query":"recovery","device":"brdma_x","qp":2})",
    R"({"query":"recovery_set","device":"brdma_x","settings":{"recovery.depth_max":9}})",
    R"({"query":"resource","what":"qp"})",
    R"({"query":"resource","what":"gap","qp":7})",
    R"({"query":"recovery_retransmit","qp":7,"psn":5,"count":2})",
    R"({"query":"queue_pair_statistics"})",
    R"({"query":"events","after":0})",
    R"({"query":"alarms"})",
    R"({"query":"alarm_set","settings":{"alarm.stall_seconds":3}})",
    R"({"query":"shutdown","force":true})",
    R"({"id":1,"answer":{}})",
};

// Takes all waiting data, descriptors too.
bool drain_stream(int fd) {
  std::array<char, 8192> bytes;
  alignas(cmsghdr) std::array<char, 256> control;
  for (;;) {
    iovec part{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t got = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got <= 0) return got < 0;
    for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
      for (std::size_t at = 0; CMSG_LEN(at + sizeof(int)) <= header->cmsg_len; at += sizeof(int)) {
        int passed = -1;
        std::memcpy(&passed, CMSG_DATA(header) + at, sizeof passed);
        ::close(passed);
      }
    }
  }
}

// Sockets that are not bound: a lease hands them out, and nothing ever comes.
SocketGroup& group() {
  static SocketGroup* const instance = [] {
    auto* made = new SocketGroup;
    for (std::size_t i = 0; i < kSlotsAtFirst; ++i)
      made->sockets.emplace_back(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    return made;
  }();
  return *instance;
}

IcmpIntake& no_messages() {
  static auto* const instance = new IcmpIntake(
      {.deliver = [](std::uint32_t, const IcmpIntake::Messages&) { return IcmpIntake::Delivery::kNobody; },
       .slots = [] { return std::vector<std::uint32_t>{}; }});
  return *instance;
}

class World final : public SessionHost {
 public:
  World()
      : state_(std::make_unique<SharedState>()),
        holder_(pair()),
        book_(*state_, group(), holder_[0].get()),
        watch_(context_, book_, options_.alarms),
        port_(-1, false, 7, false) {}

  void run(InputReader& in) {
    for (std::size_t i = 0; i < kOperationsMax && !in.empty() && !shut_down_; ++i) {
      step(in);
      settle();
    }
    for (io::FileDescriptor& client : clients_) client.reset();
    settle();
    if (shut_down_) return;  // the process ends, and its connections with it
    BRDMA_CHECK(sessions_.empty() && cm_sessions_.empty() && leases_in_use(*state_) == 0);
    BRDMA_CHECK(port_.ports().entries().empty());
  }

 private:
  static std::array<io::FileDescriptor, 2> pair() {
    std::array<int, 2> ends{};
    BRDMA_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    return {io::FileDescriptor{ends[0]}, io::FileDescriptor{ends[1]}};
  }

  void step(InputReader& in) {
    const std::size_t number = in.u8() % kClients;
    io::FileDescriptor& client = clients_[number];
    if (!client.valid()) {
      auto ends = pair();
      const int little = 1;  // the system's minimum
      if (number == kDeaf) ::setsockopt(ends[1].get(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
      client = std::move(ends[0]);
      auto session = std::make_shared<Session>(
          Session::Socket{context_, asio::local::stream_protocol(), ends[1].release()}, *this);
      sessions_[session.get()] = session;
      session->start();
    }
    std::string words = words_of(in);
    for (unsigned changes = in.u8() % 4 == 0 ? in.u8() % 4u : 0; changes > 0 && !words.empty(); --changes) {
      words[in.u16() % words.size()] = static_cast<char>(in.u8());
    }
    if (in.u8() % 8 == 0) words.resize(words.size() - in.u8() % (words.size() + 1));
    if (in.u8() % 8 == 0) {
      const std::string once = words;
      for (unsigned more = in.u8() % 24u; more > 0; --more) words += once;
    }
    static_cast<void>(!::send(client.get(), words.data(), words.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    if (in.u8() % 16 == 0) client.reset();
  }

  static std::string words_of(InputReader& in) {
    switch (in.u8() % 6) {
      case 0: {
        const auto bytes = in.bytes(in.u8());
        return {bytes.begin(), bytes.end()};
      }
      case 1: {
        io::LeaseRequest request;
        io::put_text(request.device, in.coin() ? "brdma_x" : "brdma_y");
        request.pid = in.u8();
        if (in.coin()) request.statistics_layout = in.u8();
        return text_of(request);
      }
      case 2: {
        const io::CmHello hello{.prefix = static_cast<std::uint16_t>(in.u8() % 4), .pid = in.u8()};
        return text_of(hello);
      }
      case 4: {
        io::SlotRequest request;
        request.slot = in.u8();
        request.lease_id = in.u8();
        request.slots = in.u8() % 4;
        return text_of(request);
      }
      case 3: {
        io::CmFrame frame{.kind = static_cast<io::CmFrameKind>(in.u8() % 7),
                          .port = static_cast<std::uint16_t>(in.coin() ? 7000 + in.u8() % 4 : 0),
                          .number = in.u8()};
        frame.space = in.coin() ? 6 : 17;
        frame.flags = in.u8() % 4;
        if (in.coin()) frame.local = IpAddress::v4(10, 0, 0, in.u8() % 3);
        const auto mad = in.bytes(in.u8());
        std::transform(mad.begin(), mad.end(), frame.mad.begin(), [](std::uint8_t b) { return std::byte{b}; });
        return text_of(frame);
      }
      default:
        return std::string(kQuestions[in.u8() % std::size(kQuestions)]) + "\n";
    }
  }
  template <class T>
  static std::string text_of(const T& value) {
    std::string text(sizeof value, '\0');
    std::memcpy(text.data(), &value, sizeof value);
    return text;
  }

  // Until nobody has anything to send. Time does not pass: nothing is due.
  void settle() {
    for (std::size_t ran = 1; ran != 0;) {
      context_.restart();
      ran = context_.poll();
      for (std::size_t i = 0; i < kClients; ++i) {
        io::FileDescriptor& client = clients_[i];
        if (i != kDeaf && client.valid() && !drain_stream(client.get())) client.reset();
      }
      (void)drain_stream(holder_[1].get());
    }
  }

  LeaseBook& book() override { return book_; }
  const Options& options() override { return options_; }
  bool dual_stack() override { return false; }
  void session_ended(Session* session) override { sessions_.erase(session); }
  void shut_down() override { shut_down_ = true; }
  asio::io_context& context() override { return context_; }
  UserAccounts& accounts() override { return accounts_; }
  Watch& watch() override { return watch_; }
  void begin_cm(Session::Socket socket, std::uint32_t uid, std::uint32_t pid, std::string input) override {
    auto session = std::make_shared<CmSession>(std::move(socket), uid, pid, std::move(input), port_, accounts_,
                                               [this](CmSession* ended) { cm_sessions_.erase(ended); });
    cm_sessions_[session.get()] = session;
    session->start();
  }
  const ManagementPort& management_port() override { return port_; }
  const IcmpIntake& icmp_intake() override { return no_messages(); }
  GidBook& gid_book() override { return gids_; }
  const ControllerLink* controller_link() override { return nullptr; }
  void linked(const std::shared_ptr<LeaseLink>&) override {}
  std::shared_ptr<LeaseLink> link(std::uint32_t slot) override {
    for (const auto& [key, session] : sessions_) {
      if (session->link() != nullptr && session->link()->slot() == slot) return session->link();
    }
    return nullptr;
  }

  Options options_;
  UserAccounts accounts_{Quotas{}, ::geteuid()};
  std::unique_ptr<SharedState> state_;
  GidBook gids_{state_->gids};
  std::array<io::FileDescriptor, 2> holder_;
  LeaseBook book_;
  asio::io_context context_{1};
  Watch watch_;
  ManagementPort port_;
  std::map<Session*, std::shared_ptr<Session>> sessions_;
  std::map<CmSession*, std::shared_ptr<CmSession>> cm_sessions_;
  std::array<io::FileDescriptor, kClients> clients_;
  bool shut_down_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spdlog::set_level(spdlog::level::off);
  InputReader in{data, size};
  World world;
  world.run(in);
  return 0;
}
