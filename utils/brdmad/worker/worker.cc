#include "worker/worker.h"

#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "connections/cm_session.h"
#include "connections/management_port.h"
#include "connections/stopped_process.h"
#include "io/system/secret_seed.h"
#include "lease/gid_book.h"
#include "lease/lease_book.h"
#include "network/controller_link.h"
#include "network/icmp_intake.h"
#include "queries/queries.h"
#include "worker/quotas.h"
#include "worker/session.h"
#include "worker/user_accounts.h"

namespace brdma::daemon {
namespace {

using asio::local::stream_protocol;
using boost::system::error_code;

constexpr std::chrono::milliseconds kLook{50};
constexpr std::size_t kSessionsMax = 3 * io::kSlotCount;  // a lease, RDMA-CM, and a query each
constexpr std::chrono::milliseconds kAcceptPause{100};    // when no descriptor is left for another connection

Seed secret_seed() {
  const auto seed = io::secret_seed();
  if (!seed) throw std::runtime_error(seed.reason().message);
  return seed.value();
}

class Worker final : public SessionHost {
 public:
  explicit Worker(WorkerInheritance inheritance)
      : inheritance_(inheritance),
        quotas_(quotas_of(inheritance.options, file_limit())),
        accounts_(quotas_, ::geteuid()),
        book_(*inheritance.held.state, inheritance.held.group, inheritance.channel,
              {&inheritance.held.vault, inheritance.lifeline, inheritance.held.listener.get(),
               inheritance.held.state_memory.get(), inheritance.held.connections_memory.get(), &inheritance.held.guard,
               !inheritance.options.system},
              quotas_),
        watch_(context_, book_, inheritance.options.alarms),
        acceptor_(context_, stream_protocol(), inheritance.held.listener.get()),
        management_{asio::posix::stream_descriptor(context_, inheritance.held.group.sockets[0].get()),
                    asio::posix::stream_descriptor(context_, inheritance.held.group.sockets[1].get())},
        gids_(inheritance.held.state->gids),
        icmp_({[this](std::uint32_t slot, const auto& messages) { return hand_icmp(slot, messages); },
               [this] { return leased_slots(); }}),
        port_(
            inheritance.held.group.sockets[1].get(), inheritance.held.group.dual_stack, secret_seed(),
            inheritance.held.state->worker_starts > 1, inheritance.held.connections,
            [this](std::uint32_t pid) { return book_.has_lease(pid); },
            [this](std::uint32_t slot) { return look_at(slot); }),
        look_(context_),
        idle_(context_),
        pause_(context_) {
    if (options().controller.address.empty()) return;
    controller_.emplace(
        context_, book_, [this](std::uint32_t slot) { return link(slot); }, options().controller);
  }

  int run();

 private:
  LeaseBook& book() override { return book_; }
  const Options& options() override { return inheritance_.options; }
  bool dual_stack() override { return inheritance_.held.group.dual_stack; }
  void session_ended(Session* session) override;
  void shut_down() override;
  asio::io_context& context() override { return context_; }
  UserAccounts& accounts() override { return accounts_; }
  Watch& watch() override { return watch_; }
  void begin_cm(stream_protocol::socket socket, std::uint32_t uid, std::uint32_t pid, std::string input) override;
  const ManagementPort& management_port() override { return port_; }
  const IcmpIntake& icmp_intake() override { return icmp_; }
  GidBook& gid_book() override { return gids_; }
  const ControllerLink* controller_link() override { return controller_ ? &*controller_ : nullptr; }
  std::shared_ptr<LeaseLink> link(std::uint32_t slot) override;
  void linked(const std::shared_ptr<LeaseLink>& link) override { links_[link->slot()] = link; }

  void accept();
  void admit(stream_protocol::socket socket);
  [[nodiscard]] bool few_descriptors_left(int newest) const;
  void keep(const std::shared_ptr<Session>& session);
  void discard_qp0();
  void receive_mads();
  void receive_icmp();
  IcmpIntake::Delivery hand_icmp(std::uint32_t slot, const IcmpIntake::Messages& messages);
  [[nodiscard]] std::vector<std::uint32_t> leased_slots() const;
  [[nodiscard]] StoppedPeers::Lease look_at(std::uint32_t slot) const;
  void look_later();
  [[nodiscard]] bool in_use() const { return !sessions_.empty() || !cm_sessions_.empty(); }
  void watch_idleness();

  WorkerInheritance inheritance_;
  Quotas quotas_;
  UserAccounts accounts_;
  LeaseBook book_;
  asio::io_context context_{1};
  Watch watch_;
  stream_protocol::acceptor acceptor_;
  std::array<asio::posix::stream_descriptor, 2> management_;  // QP 0 and QP 1
  GidBook gids_;
  IcmpIntake icmp_;
  std::optional<asio::posix::stream_descriptor> icmp_readable_;  // the intake's socket, where it has one
  Freezers freezers_;
  ManagementPort port_;
  asio::steady_timer look_, idle_, pause_;
  bool will_look_ = false;
  std::map<Session*, std::shared_ptr<Session>> sessions_;
  std::map<CmSession*, std::shared_ptr<CmSession>> cm_sessions_;
  std::map<std::uint32_t, std::shared_ptr<LeaseLink>> links_;  // by slot
  std::optional<ControllerLink> controller_;                   // where one is set
};

void Worker::keep(const std::shared_ptr<Session>& session) {
  sessions_[session.get()] = session;
  idle_.cancel();
}

void Worker::accept() {
  acceptor_.async_accept([this](error_code error, stream_protocol::socket socket) {
    if (error) {
      if (!acceptor_.is_open()) return;
      pause_.expires_after(kAcceptPause);
      pause_.async_wait([this](error_code) { accept(); });
      return;
    }
    admit(std::move(socket));
    accept();
  });
}

// A connection over the limit gets no answer: it just ends.
void Worker::admit(stream_protocol::socket socket) {
  const std::uint32_t uid = Session::peer_of(socket).uid;
  const WorkFor work{accounts_, uid};
  const bool room = sessions_.size() + cm_sessions_.size() < kSessionsMax &&
                    (!accounts_.limited(uid) || !few_descriptors_left(socket.native_handle()));
  if (!room || !accounts_.admit(uid, may_use(options(), uid))) {
    ++inheritance_.held.state->connections_refused;
    return;
  }
  auto session = std::make_shared<Session>(std::move(socket), *this);
  keep(session);
  session->start();
}

// Descriptors are numbered from below: the newest number shows how many are open.
bool Worker::few_descriptors_left(int newest) const {
  return static_cast<std::uint64_t>(newest) + quotas_.descriptors_left > file_limit();
}

// Nothing serves QP 0: RoCE has no subnet manager. Reading keeps its buffer from filling up.
void Worker::discard_qp0() {
  management_[0].async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
    if (error) return;
    inheritance_.held.state->management_datagrams += drain(management_[0].native_handle());
    discard_qp0();
  });
}

void Worker::receive_mads() {
  management_[1].async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
    if (error) return;
    inheritance_.held.state->management_datagrams += port_.receive();
    look_later();
    receive_mads();
  });
}

// The descriptor is the intake's, lent to Asio for waiting.
void Worker::receive_icmp() {
  if (icmp_.fd() < 0) return;
  if (!icmp_readable_) icmp_readable_.emplace(context_, ::dup(icmp_.fd()));
  icmp_readable_->async_wait(asio::posix::stream_descriptor::wait_read, [this](error_code error) {
    if (error) return;
    (void)icmp_.receive();
    receive_icmp();
  });
}

IcmpIntake::Delivery Worker::hand_icmp(std::uint32_t slot, const IcmpIntake::Messages& messages) {
  const auto process = link(lessee_of(book_.state(), slot));
  if (process == nullptr) return IcmpIntake::Delivery::kNobody;
  return process->notify({{"do", "icmp"}, {"messages", messages}}) ? IcmpIntake::Delivery::kDone
                                                                   : IcmpIntake::Delivery::kUnread;
}

std::vector<std::uint32_t> Worker::leased_slots() const {
  std::vector<std::uint32_t> slots;
  slots.reserve(links_.size());
  for (const auto& [slot, link] : links_) slots.push_back(slot);
  return slots;
}

StoppedPeers::Lease Worker::look_at(std::uint32_t slot) const {
  const LeaseBook::Holder holder = book_.holder(lessee_of(book_.state(), slot));
  return {.stopped = is_stopped(holder.pid) || freezers_.has_frozen(holder.pid), .age = holder.age};
}

void Worker::look_later() {
  if (will_look_ || !port_.waits()) return;
  will_look_ = true;
  look_.expires_after(kLook);
  look_.async_wait([this](error_code error) {
    if (error) return;
    will_look_ = false;
    port_.look();
    look_later();
  });
}

void Worker::begin_cm(stream_protocol::socket socket, std::uint32_t uid, std::uint32_t pid, std::string input) {
  if (!accounts_.admit(uid, true)) return;
  auto session = std::make_shared<CmSession>(std::move(socket), uid, pid, std::move(input), port_, accounts_,
                                             [this, uid](CmSession* ended) {
                                               accounts_.leave(uid);
                                               cm_sessions_.erase(ended);
                                               look_later();
                                               watch_idleness();
                                             });
  cm_sessions_[session.get()] = session;
  session->start();
}

void Worker::session_ended(Session* session) {
  if (session->link() != nullptr) links_.erase(session->link()->slot());
  accounts_.leave(session->uid());
  sessions_.erase(session);
  watch_idleness();
}

std::shared_ptr<LeaseLink> Worker::link(std::uint32_t slot) {
  const auto found = links_.find(slot);
  return found == links_.end() ? nullptr : found->second;
}

void Worker::shut_down() {
  spdlog::info("stopped on request");
  book_.end_all();
  context_.stop();
}

void Worker::watch_idleness() {
  if (in_use() || options().idle_seconds == 0) return;
  idle_.expires_after(std::chrono::seconds(options().idle_seconds));
  idle_.async_wait([this](error_code error) {
    if (error || in_use()) return;
    pollfd waiting{acceptor_.native_handle(), POLLIN, 0};
    if (::poll(&waiting, 1, 0) > 0) return watch_idleness();  // a connection has just come
    spdlog::info("ends: nobody used it for {} s", options().idle_seconds);
    context_.stop();
  });
}

int Worker::run() {
  for (LeaseBook::Adopted& adopted : book_.adopt(inheritance_.held.kept)) {
    stream_protocol::socket socket(context_, stream_protocol(), adopted.connection.release());
    const auto session = std::make_shared<Session>(std::move(socket), *this);
    static_cast<void>(accounts_.admit(session->uid(), true));
    keep(session);
    session->resume_lease(adopted.slot);
  }
  accept();
  discard_qp0();
  receive_mads();
  receive_icmp();
  look_later();
  if (controller_) controller_->start();
  watch_idleness();
  context_.run();
  return kWorkerDone;
}

}  // namespace

int run_worker(WorkerInheritance inheritance) {
  io::keep_gid_tables_apart();
  try {
    Worker worker(inheritance);
    return worker.run();
  } catch (const std::exception& error) {  // no memory, no descriptors: the holder starts another
    spdlog::error("the worker fails: {}", error.what());
    return 1;
  }
}

}  // namespace brdma::daemon
