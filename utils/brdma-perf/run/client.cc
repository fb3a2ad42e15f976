#include "run/client.h"

#include <sys/resource.h>

#include <array>
#include <cstdio>
#include <memory>
#include <optional>

#include "run/channel.h"
#include "run/checker.h"
#include "run/greeting.h"
#include "run/output.h"
#include "run/ping_pong.h"
#include "run/streams.h"
#include "values/results.h"
#include "values/samples.h"
#include "verbs/rdma_cm.h"

namespace brdma::perf {
namespace {

constexpr std::int64_t kConnectTime = 5 * 1'000'000'000LL;
constexpr std::int64_t kOthersTime = 3600 * 1'000'000'000LL;  // until the other clients are there
constexpr std::int64_t kDrainTime = 30 * 1'000'000'000LL;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::optional<Arrivals> arrivals_of(const Options& options) {
  if (options.plan.mode != Mode::kFct) return std::nullopt;
  return Arrivals{SizeMix::open(options.sizes, mix_folders()), options.every, options.plan.seed};
}

class Client {
 public:
  Client(Loop& loop, const Options& options)
      : loop_(loop),
        options_(options),
        arrivals_(arrivals_of(options)),
        channel_(loop, options.address, options.port, kConnectTime),
        recording_(options.interval) {}
  ~Client() {
    if (cm_) cm_->close();
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int run();

 private:
  void connect();
  void connect_by_tcp(const Json& welcome);
  void connect_by_cm(const Json& welcome);
  void measure();
  std::size_t step(std::int64_t start, bool stopping);
  void rest(std::int64_t start, bool stopping);
  void wait(std::int64_t deadline);
  void look(std::int64_t now);
  [[nodiscard]] bool over(std::int64_t now) const;
  [[nodiscard]] bool idle() const;
  void finish();
  [[nodiscard]] Run results() const;

  Loop& loop_;
  const Options& options_;
  std::optional<Arrivals> arrivals_;
  Channel channel_;
  std::unique_ptr<CmClient> cm_;
  std::optional<Device> device_;
  std::unique_ptr<Endpoint> endpoint_;
  Checker checker_;
  Recording recording_;
  std::optional<Streams> streams_;
  std::optional<PingPong> ping_pong_;
  std::int64_t looked_ = 0, stopped_ = 0;
  double cpu_ = 0;
  CheckTotals checks_;
  std::string flaw_;
};

void Client::connect_by_tcp(const Json& welcome) {
  device_.emplace(Device::open({options_.device, options_.device_port, options_.gid_index, options_.ours},
                               channel_.local_address()));
  endpoint_ = std::make_unique<Endpoint>(loop_, *device_, options_.plan, Side::kClient);
  const Place peer = place_from(welcome);
  const std::vector<RemoteQueuePair> remote = queue_pairs_from(welcome, endpoint_->lanes().size());
  std::vector<RemoteQueuePair> own;
  for (std::uint32_t lane = 0; lane < remote.size(); ++lane) {
    own.push_back(endpoint_->make_queue_pair(lane));
    endpoint_->post_receives(lane);
    endpoint_->connect(lane, peer, remote[lane]);
  }
  channel_.send(
      {{"place", to_json(device_->place())}, {"memory", to_json(endpoint_->memory())}, {"queue_pairs", to_json(own)}});
}

void Client::connect_by_cm(const Json& welcome) {
  const std::int64_t deadline = clock_ns() + Channel::kAnswerTime;
  const auto port = static_cast<std::uint16_t>(number_from(welcome, "cm_port", 0xFFFF));
  cm_ = std::make_unique<CmClient>(channel_.peer_address(), port, deadline);
  device_.emplace(Device::borrow(cm_->context(), cm_->port_of_device(), channel_.local_address()));
  endpoint_ = std::make_unique<Endpoint>(loop_, *device_, options_.plan, Side::kClient);
  cm_->connect(*endpoint_, number_from(welcome, "token", ~std::uint64_t{0}), deadline);
  channel_.send({{"memory", to_json(endpoint_->memory())}});
}

void Client::connect() {
  channel_.send({{"plan", to_json(options_.plan)}});
  const Json welcome = channel_.receive(clock_ns() + kOthersTime);  // the server may be busy with others
  try {
    options_.plan.rdma_cm ? connect_by_cm(welcome) : connect_by_tcp(welcome);
  } catch (const RunError& error) {
    channel_.send({{"error", error.what()}});
    throw;
  }
  endpoint_->set_remote(memory_from(welcome));
  streams_.emplace(*endpoint_, checker_, recording_, options_.plan, std::move(arrivals_));
  streams_->limit(options_.messages);
  if (endpoint_->lanes()[0].role == Role::kPingPong) {
    ping_pong_.emplace(*endpoint_, checker_, recording_);
    prepare_ping(*endpoint_, checker_);
  }
  (void)channel_.receive(clock_ns() + kOthersTime);  // go
}

bool Client::over(std::int64_t now) const {
  if (loop_.interrupted() || recording_.full()) return true;
  if (options_.messages == 0) return now >= options_.duration;
  const std::uint64_t begun = ping_pong_ ? ping_pong_->sent() : streams_->begun();
  return begun >= options_.messages;
}

bool Client::idle() const { return streams_->idle() && (!ping_pong_ || ping_pong_->idle()); }

void Client::look(std::int64_t now) {
  if (now - looked_ < kLookTime) return;
  looked_ = now;
  loop_.poll();
  if (channel_.has_news()) {
    (void)channel_.take();  // throws where it is an error or the end
    throw RunError("the server speaks before its turn");
  }
}

// Takes completions, then posts. Returns how many completions there were. Times are from `start`.
std::size_t Client::step(std::int64_t start, bool stopping) {
  std::array<ibv_wc, Endpoint::kBatch> completions{};
  const std::size_t count = endpoint_->poll(completions);
  const std::int64_t now = clock_ns() - start;
  for (std::size_t i = 0; i < count; ++i) {
    const bool first_lane = work_id(completions[i].wr_id).lane == 0;
    if (ping_pong_ && first_lane) {
      ping_pong_->handle(completions[i], now);
    } else {
      streams_->handle(completions[i], now);
    }
  }
  if (ping_pong_) ping_pong_->post(clock_ns() - start, stopping, options_.messages);
  streams_->post(clock_ns() - start, stopping);
  return count;
}

// Sleeps until a completion, news of the server, or `deadline` (of clock_ns).
void Client::wait(std::int64_t deadline) {
  loop_.run_until([&] { return endpoint_->has_event() || channel_.has_news() || loop_.interrupted(); }, deadline);
}

// After a poll that gave nothing: asks for an event, or sleeps if that was done before the poll.
void Client::rest(std::int64_t start, bool stopping) {
  const bool was_armed = !endpoint_->has_event();
  endpoint_->arm();
  if (!was_armed) return;  // a completion may have come before that
  std::int64_t next = stopping ? stopped_ + kDrainTime : streams_->next_time();
  if (!stopping && options_.messages == 0) next = std::min(next, options_.duration);
  wait(next == kForever ? kForever : start + next);
}

void Client::measure() {
  const std::int64_t start = clock_ns();
  const double cpu_before = cpu_seconds();
  bool stopping = false;
  while (!stopping || !idle()) {
    const std::int64_t now = clock_ns() - start;
    if (!stopping && over(now)) {
      stopping = true;
      stopped_ = now;
    }
    if (stopping && now - stopped_ > kDrainTime) throw RunError("messages are not complete within 30 s after the end");
    look(now);
    const bool worked = step(start, stopping) != 0 || (stopping && idle());
    if (!worked && options_.plan.sleeping) rest(start, stopping);
  }
  cpu_ = cpu_seconds() - cpu_before;
  if (options_.messages != 0) stopped_ = std::max(stopped_, recording_.last());
}

void Client::finish() {
  std::vector<LaneCount> counts = streams_->counts();
  if (ping_pong_) counts[0].plain = ping_pong_->messages();
  const double seconds = static_cast<double>(std::max<std::int64_t>(recording_.last(), 1)) / 1e9;
  const std::uint64_t kilobytes = static_cast<std::uint64_t>(static_cast<double>(streams_->bytes()) / seconds / 1000);
  channel_.send({{"done", true}, {"lanes", to_json(counts)}, {"kbytes_s", kilobytes}});
  const Json verdict = channel_.receive(clock_ns() + kDrainTime, /*steadfast=*/true);
  checks_ = checker_.totals();
  checks_.add(checks_from(verdict));
  flaw_ = checker_.first_flaw();
  const auto text = verdict.find("flaw");
  if (flaw_.empty() && text != verdict.end() && text->is_string()) flaw_ = text->get<std::string>().substr(0, 200);
}

Run Client::results() const {
  Run run{options_.plan,
          options_.address,
          device_->name(),
          gid_text(device_->place().gid),
          "",
          0,
          0,
          0,
          {},
          0,
          0,
          0,
          checks_,
          recording_,
          {}};
  run.mtu = device_->place().mtu != 0 ? 128u << device_->place().mtu : 0;
  run.every = options_.every;
  run.sizes = options_.plan.mode == Mode::kFct ? options_.sizes : "";
  run.elapsed = stopped_;
  run.warmup = options_.warmup;
  run.messages = streams_->messages() + (ping_pong_ ? ping_pong_->messages() : 0);
  run.bytes = streams_->bytes() + (ping_pong_ ? ping_pong_->messages() * options_.plan.size : 0);
  run.cpu_seconds = cpu_;
  if (options_.plan.load != 0) run.load_bytes = streams_->load_bytes();
  return run;
}

int Client::run() {
  connect();
  measure();
  finish();
  const Run run = results();
  const Json json = results_of(run);
  if (!options_.svg.empty()) write_picture(options_.svg, json, run.recording.samples());
  print(options_.json ? json.dump() + "\n" : text_of(json));
  if (checks_.flaws == 0) return 0;
  std::fprintf(stderr, "brdma perf: %llu flaws in the data, the first: %s\n",
               static_cast<unsigned long long>(checks_.flaws), flaw_.c_str());
  return 1;
}

}  // namespace

int run_client(Loop& loop, const Options& options) { return Client{loop, options}.run(); }

}  // namespace brdma::perf
