// io/shard/context.cc - brdma::Context: a lease, a shard on it, and the thread that serves it between the program's
// calls.
//
// fork(): the child shares the sockets but has no progress thread, and its engine is a copy that would answer the same
// packets as the parent's. Only one of them may use the context, if there was no queue pair yet (take_over());
// destroying it in the other touches nothing.
#include "bitmaprdma/context.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>
#include <utility>

#include "control/config.h"
#include "io/shard/clock.h"
#include "io/shard/open_context.h"
#include "io/system/process_memory.h"

namespace brdma {
namespace {

constexpr int kEventDeviceFatal = 8;  // IBV_EVENT_DEVICE_FATAL
// Long enough for an application that spins on its memory to get a core and post its reply, and well below the peer's
// probe timeout.
constexpr Duration kAckHoldMax = 100_us;

EngineConfig engine_config(const io::ContextImpl::Options& options, const io::Lease& lease, const io::Intake& intake,
                           const std::vector<io::TransmitSocket>& transmit_sockets) {
  EngineConfig config;
  config.recovery = options.recovery;
  config.transfer = options.transfer;
  if (options.reads_processes) config.local_memory = &io::process_memory();
  // A deadline bounds held acknowledgements, and their benefit is measured (io/poll/ack_deferral.h).
  if (config.recovery.ack_delay > Duration{}) config.recovery.ack_hold_max = kAckHoldMax;
  config.seed = options.seed;
  config.shard = options.shard;
  config.slot = lease.slot;
  config.slot_bits = lease.slot_bits;
  config.source_ports.clear();
  // Without GSO a batch still saves work: its packets leave by one sendmmsg. But each then has identification 0.
  config.segments_max = static_cast<std::uint32_t>(kSegmentsMax);
  config.ip_id_counts_in_batch = true;
  for (const auto& socket : transmit_sockets) {
    config.source_ports.push_back(socket.port());
    if (!socket.gso()) config.ip_id_counts_in_batch = false;
  }
  const io::ReceiveBudget budget = intake.budget();
  config.receive_packets = budget.packets;
  config.receive_bytes = budget.bytes;
  return config;
}

// The AF_XDP socket to request. A transmitting one that does not receive also takes a queue, which nobody else can then
// use for receiving: only where configured.
io::XdpWant xdp_want(const control::DatapathConfig& datapath) {
  using control::Datapath;
  const bool wished = datapath.receive == Datapath::kXdp || datapath.transmit == Datapath::kXdp;
  io::XdpWant want;
  want.mode = datapath.xdp_mode;
  // Where packets are copied out of the driver's memory anyway, UDP with its merged packets is faster
  // (docs/explanation/datapath.md).
  if (want.mode == io::XdpMode::kAuto && !wished) want.mode = io::XdpMode::kZeroCopy;
  if (datapath.receive == Datapath::kXdp ||
      (datapath.receive == Datapath::kAuto && want.mode == io::XdpMode::kZeroCopy))
    want.receive_chunks = datapath.xdp_chunks;
  if (datapath.transmit == Datapath::kXdp || (datapath.transmit == Datapath::kAuto && want.receive_chunks > 0))
    want.transmit_chunks = io::kXdpTransmitChunks;
  return want;
}

// A shard's datapaths: UDP always, with AF_XDP where configured and available. The reason against it is kept for
// display.
struct Datapaths {
  std::optional<io::XdpSockets> xdp;
  std::string why_not_receive, why_not_transmit;
};

Datapaths make_datapaths(const io::ContextImpl::Options& options, const io::Lease& lease) {
  using control::Datapath;
  const control::DatapathConfig& datapath = options.datapath;
  Datapaths made;
  if (datapath.receive == Datapath::kUdp) made.why_not_receive = "datapath.receive is udp";
  if (datapath.transmit == Datapath::kUdp) made.why_not_transmit = "datapath.transmit is udp";
  const io::XdpWant want = xdp_want(datapath);
  if (want.receive_chunks == 0 && made.why_not_receive.empty())
    made.why_not_receive = "datapath.receive is auto, and copies would be made";
  if (want.transmit_chunks == 0 && made.why_not_transmit.empty())
    made.why_not_transmit = "datapath.transmit is auto, and packets come by UDP";
  if (want.receive_chunks == 0 && want.transmit_chunks == 0) return made;
  auto got = options.ask_xdp(lease, want);
  if (got) made.xdp = std::move(got).value();
  const std::string said = got ? made.xdp->why_not_transmit : got.reason().message;
  if (want.receive_chunks > 0 && !got) made.why_not_receive = said;
  if (want.transmit_chunks > 0) made.why_not_transmit = said;
  return made;
}

void give_back(io::Shard& shard) {
  const bool wake = shard.progress_owner().take_wake_request();
  shard.progress_owner().left();
  shard.lock().unlock();
  if (wake) [[unlikely]]
    shard.progress_owner().wake();
}

// Holds a shard's lock for one call; polling loops must not starve other threads that wait for it.
class Call {
 public:
  explicit Call(io::Shard& shard) : shard_(shard) {
    constexpr int kCourtesy = 64;
    if (shard_.lock().contended()) [[unlikely]] {
      for (int i = 0; i < kCourtesy; ++i) io::cpu_relax();
    }
    shard_.lock().lock();
  }
  ~Call() { give_back(shard_); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  io::Shard& shard_;
};

}  // namespace

Context::Impl::Impl(const DeviceInfo& device_info, io::Lease leased, const Options& options, const EngineConfig& config,
                    io::Intake intake, io::Outlet outlet, NotificationHandler* notification_handler)
    : device(device_info),
      lease(std::move(leased)),
      handler(notification_handler),
      share(options.share),
      ask_slot(options.ask_slot),
      shard(config, std::move(intake), std::move(outlet), *lease.statistics, notification_handler,
            options.datapath.poll_stay_max),
      thread_wanted(options.progress_thread),
      thread(shard,
             [&] {
               auto thread_options = options.thread;
               if (share != nullptr) thread_options.spin_permits = &share->spin_permits;
               thread_options.watched_fd = lease.control_fd;
               thread_options.on_hangup = [this] { handle_hangup(); };
               return thread_options;
             }()),
      management(shard, options.shard == 0),
      pid(getpid()) {
  if (lease.events != nullptr) {
    journal.emplace(*lease.events, *lease.statistics);
    shard.engine().set_journal(&*journal);
  }
  shard.set_gauges(lease.gauges);
  if (lease.device_use != nullptr) shard.engine().share_limits(DeviceUse{*lease.device_use, lease.slot});
  if (options.control_thread) {
    if (handler != nullptr && options.shard == 0) {
      netdev.open(device.ifindex);
      control.watch(netdev.fd(), [this] { handle_netdev(); });
    }
    control.at_hangup([this] {
      const std::lock_guard held{shard.lock()};
      handle_hangup();
    });
    control.survive(lease.take_revival());
    control.start(lease.control_fd, [this](std::string_view line) { return management.answer(line); });
  }
}

Result<std::unique_ptr<Context>, ContextError> Context::Impl::make(const DeviceInfo& device, io::Lease lease,
                                                                   const Options& options,
                                                                   NotificationHandler* handler) {
  Datapaths datapaths = make_datapaths(options, lease);
  io::Intake intake{io::ReceiveSocket{lease.socket_fd, lease.dual_stack, options.receive},
                    datapaths.xdp ? std::move(datapaths.xdp->receive) : std::nullopt,
                    std::move(datapaths.why_not_receive)};
  io::TransmitSocketOptions transmit_options;
  transmit_options.gso = options.gso;
  transmit_options.ifindex = device.ifindex;
  transmit_options.send_buffer_bytes = options.send_buffer_bytes;
  std::vector<io::TransmitSocket> transmit_sockets;  // one a path
  do {
    auto opened = io::TransmitSocket::open(transmit_options);
    if (!opened) return opened.reason();
    transmit_sockets.push_back(std::move(opened).value());
  } while (transmit_sockets.size() < std::min(options.recovery.paths, kPathsMax));
  const EngineConfig config = engine_config(options, lease, intake, transmit_sockets);
  std::optional<io::XdpOutlet> by_xdp;
  if (datapaths.xdp && datapaths.xdp->transmit) {
    by_xdp.emplace(io::XdpOutlet{std::move(*datapaths.xdp->transmit), io::Neighbours{device.ifindex},
                                 options.datapath.transmit == control::Datapath::kXdp, config.ip_id_counts_in_batch});
  }
  io::Outlet outlet{std::move(transmit_sockets), std::move(by_xdp), std::move(datapaths.why_not_transmit)};
  auto impl =
      std::make_unique<Impl>(device, std::move(lease), options, config, std::move(intake), std::move(outlet), handler);
  return std::unique_ptr<Context>{new Context{std::move(impl)}};
}

void Context::Impl::start_thread_if_needed() {
  if (!thread_wanted || thread.started() || shard.engine().queue_pairs() == 0) return;
  thread_wanted = thread.start();
}

// brdmad is gone, not only its worker: packets are no longer steered to this socket, and it keeps port 4791 from the
// next brdmad.
void Context::Impl::handle_hangup() {
  if (gone || lease.alive()) return;
  gone = true;
  lease.abandon();
  const bool reported = share != nullptr && share->fatal_reported.exchange(true);
  if (handler != nullptr && !reported) handler->async_event(kEventDeviceFatal, nullptr);
}

void Context::Impl::handle_netdev() {
  const io::NetdevWatch::Change change = netdev.read();
  if (change == io::NetdevWatch::Change::kNone) return;
  const std::vector<int> events = handler->interface_changed(change == io::NetdevWatch::Change::kRemoved);
  const std::lock_guard held{shard.lock()};
  for (const int event : events) handler->async_event(event, nullptr);
}

Context::Context(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Context::~Context() {
  if (impl_->pid != getpid()) (void)impl_.release();
}

const DeviceInfo& Context::device() const { return impl_->device; }
bool Context::connected() const { return impl_->lease.alive(); }

Context::Session::Session(Context& context) : context_(context) {
  io::Shard& shard = context_.impl_->shard;
  shard.lock().lock();
  shard.before();
  now_ns_ = io::monotonic_now().ns();
}

Context::Session::~Session() {
  Impl& impl = *context_.impl_;
  impl.shard.settle(io::monotonic_now());
  impl.start_thread_if_needed();
  give_back(impl.shard);
}

void Context::send_final_acks(QueuePair* qp) {
  const Call call{impl_->shard};
  impl_->shard.send_final_acks(qp);
}

Engine& Context::Session::engine() { return context_.impl_->shard.engine(); }

std::size_t Context::poll_cq(CompletionQueue* cq, std::span<Completion> out, std::span<Instant> times) {
  std::size_t count = 0;
  bool yield = false;
  {
    const Call call{impl_->shard};
    count = impl_->shard.poll_cq(cq, out, times);
    yield = count == 0 && impl_->shard.progress_owner().should_yield();
  }
  if (yield) [[unlikely]] {
    sched_yield();
    // Completions that arrived meanwhile are returned. An application that learns next of a disconnect polls no more.
    const Call call{impl_->shard};
    count = impl_->shard.poll_cq(cq, out, times);
  }
  return count;
}

Status Context::post_send(QueuePair* qp, std::span<const SendRequest> requests, std::size_t& posted) {
  const Call call{impl_->shard};
  return impl_->shard.post_send(qp, requests, posted);
}

Status Context::post_send(QueuePair* qp, Take<SendRequest> take, void* list, std::size_t& posted) {
  const Call call{impl_->shard};
  const std::span<SendRequest> place{impl_->sends};
  return impl_->shard.post_send(qp, place.first(take(list, place)), posted);
}

Status Context::post_receive(QueuePair* qp, Take<ReceiveRequest> take, void* list, std::size_t& posted) {
  const Call call{impl_->shard};
  const std::span<ReceiveRequest> place{impl_->receives};
  return impl_->shard.post_receive(qp, place.first(take(list, place)), posted);
}

Status Context::post_receive(SharedReceiveQueue* srq, Take<ReceiveRequest> take, void* list, std::size_t& posted) {
  const Call call{impl_->shard};
  const std::span<ReceiveRequest> place{impl_->receives};
  return impl_->shard.post_receive(srq, place.first(take(list, place)), posted);
}

Status Context::post_send_all(QueuePair* qp, std::span<const SendRequest> requests) {
  const Call call{impl_->shard};
  return impl_->shard.post_send_all(qp, requests);
}

Status Context::attach_multicast(QueuePair* qp, const IpAddress& group) {
  const Call call{impl_->shard};
  return impl_->shard.attach_multicast(qp, group, impl_->device.ifindex);
}

Status Context::detach_multicast(QueuePair* qp, const IpAddress& group) {
  const Call call{impl_->shard};
  return impl_->shard.detach_multicast(qp, group);
}

Status Context::post_receive(QueuePair* qp, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  const Call call{impl_->shard};
  return impl_->shard.post_receive(qp, requests, posted);
}

Status Context::post_receive(SharedReceiveQueue* srq, std::span<const ReceiveRequest> requests, std::size_t& posted) {
  const Call call{impl_->shard};
  return impl_->shard.post_receive(srq, requests, posted);
}

void Context::request_notify(CompletionQueue* cq, bool solicited_only) {
  const Call call{impl_->shard};
  impl_->shard.request_notify(cq, solicited_only);
}

std::array<int, 2> Context::packet_descriptors() const { return impl_->shard.receive_fds(); }

void Context::attend(bool all, bool then_sleeps) {
  const Call call{impl_->shard};
  impl_->shard.progress_owner().attend();
  impl_->shard.attend(all, then_sleeps);
}

void Context::request_notify(std::span<const NotifiedQueue> queues, const std::function<NotifyOf()>& decide) {
  std::array<std::optional<Call>, kShardsMax> calls;
  for (std::size_t i = 0; i < queues.size(); ++i) calls[i].emplace(queues[i].context->impl_->shard);
  const NotifyOf what = decide();
  for (const NotifiedQueue& each : queues) {
    io::Shard& shard = each.context->impl_->shard;
    shard.engine().cancel_notify(each.queue);
    if (what != NotifyOf::kNothing) shard.request_notify(each.queue, what == NotifyOf::kSolicited);
  }
}

ContextError Context::prepare_queue_pair() {
  const std::lock_guard asking(impl_->asking);
  std::size_t slots = 0;
  {
    const Call call{impl_->shard};
    if (impl_->shard.engine().has_queue_pair_numbers()) return {};
    slots = impl_->shard.engine().slots().size();
  }
  const auto slot = impl_->ask_slot(impl_->lease, static_cast<std::uint32_t>(slots));
  if (!slot) return slot.reason();
  const Call call{impl_->shard};
  const auto& had = impl_->shard.engine().slots();
  if (std::find(had.begin(), had.end(), slot.value()) != had.end()) return {EPROTO, "brdmad gave a slot twice"};
  impl_->shard.engine().add_slot(slot.value());
  return {};
}

Status Context::watch_writes(MemoryRegion* region, void* user) {
  const Call call{impl_->shard};
  return impl_->shard.engine().watch_writes(region, user);
}

Status Context::unwatch_writes(MemoryRegion* region) {
  const Call call{impl_->shard};
  return impl_->shard.engine().unwatch_writes(region);
}

bool Context::is_busy() {
  if (!impl_->shard.lock().try_lock()) return true;
  impl_->shard.lock().unlock();
  return false;
}

void Context::take_over() {
  if (impl_->pid == getpid()) return;
  impl_->pid = getpid();
  impl_->control.start_again();
}

void Context::leave() {
  constexpr int kTriesMax = 10'000;  // some 100 us
  if (impl_->pid != getpid()) return;
  io::Shard& shard = impl_->shard;
  for (int i = 0; i < kTriesMax; ++i) {
    if (shard.lock().try_lock()) {
      shard.engine().send_final_acks();
      shard.before();
      shard.lock().unlock();
      return;
    }
    io::cpu_relax();
  }
}

}  // namespace brdma
