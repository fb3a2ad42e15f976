#include "verbs_load.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "io/shard/clock.h"
#include "trace/retransmissions.h"

namespace brdma::bench {
namespace {

using io::monotonic_now;
using test::Endpoint;
using test::PeerInfo;

// Sends our parameters to the other side and waits for its.
void connect_sides(Exchange& exchange, Endpoint& endpoint, bool server, unsigned receives = 0) {
  const PeerInfo mine = endpoint.info();
  std::memcpy(exchange.info[server ? 0 : 1].data(), &mine, sizeof(mine));
  barrier(exchange, 1);
  PeerInfo peer;
  std::memcpy(static_cast<void*>(&peer), exchange.info[server ? 1 : 0].data(), sizeof(peer));
  endpoint.connect(peer);
  const std::size_t half = endpoint.memory.size() / 2;
  for (unsigned i = 0; i < receives; ++i) {
    if (!endpoint.post_receive(half, static_cast<std::uint32_t>(half)).ok()) std::exit(1);
  }
  barrier(exchange, 2);
}

test::EndpointOptions endpoint_options(const LoadOptions& options) {
  test::EndpointOptions out;
  out.memory_bytes = std::max<std::size_t>(4096, std::size_t{options.bytes} * 2);
  out.mtu = options.mtu;
  out.send_wr_max = options.depth;
  out.context = options.context;
  return out;
}

void fail(const Completion& completion) {
  std::fprintf(stderr, "completion with status %u\n", static_cast<unsigned>(completion.status));
  std::exit(1);
}

void take_times(Exchange& exchange, std::vector<std::int64_t>& times) {
  std::sort(times.begin(), times.end());
  exchange.result[0] = static_cast<double>(times[times.size() / 2]) / 2e3;
  exchange.result[1] = static_cast<double>(times[times.size() * 99 / 100]) / 2e3;
  exchange.result[2] = static_cast<double>(times[times.size() * 999 / 1000]) / 2e3;
  exchange.result[3] = static_cast<double>(times.size());
}

void take_statistics(Exchange& exchange, const Endpoint& endpoint) {
  exchange.result[4] = static_cast<double>(endpoint.statistics->get(Counter::kSentPackets));
  exchange.result[5] = static_cast<double>(endpoint.statistics->get(Counter::kAcksReceived));
  exchange.result[6] = static_cast<double>(retransmitted(*endpoint.statistics));
  exchange.result[7] = static_cast<double>(endpoint.statistics->get(Counter::kCreditStalls));
}

}  // namespace

void write_bw_server(Exchange& exchange, io::Lease lease, const LoadOptions& options) {
  Endpoint endpoint{std::move(lease), options.server, endpoint_options(options)};
  connect_sides(exchange, endpoint, true);
  barrier(exchange, 3);  // asleep until the client is done
}

void write_bw_client(Exchange& exchange, io::Lease lease, const LoadOptions& options) {
  Endpoint endpoint{std::move(lease), options.client, endpoint_options(options)};
  connect_sides(exchange, endpoint, false);
  const std::vector<Endpoint::Work> work(options.list, {.bytes = options.bytes});
  std::vector<Completion> completions(16);
  std::uint64_t posted = 0, done = 0;
  const Instant start = monotonic_now();
  const Instant end = start + Duration::from_ns(static_cast<std::int64_t>(options.seconds * 1e9));
  while (monotonic_now() < end) {
    while (posted + options.list - done <= options.depth) {
      if (!endpoint.post_list(WorkOpcode::kRdmaWrite, work).ok()) std::exit(1);
      posted += options.list;
    }
    const std::size_t count = endpoint.context->poll_cq(endpoint.send_cq, completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].status != CompletionStatus::kSuccess) fail(completions[i]);
    }
    done += count;
  }
  const double seconds = static_cast<double>((monotonic_now() - start).ns()) / 1e9;
  exchange.result[0] = static_cast<double>(done) * options.bytes * 8 / seconds / 1e9;
  exchange.result[1] = static_cast<double>(done) / seconds / 1e3;
  take_statistics(exchange, endpoint);
  barrier(exchange, 3);
}

// The client begins; as in perftest both poll for their own completion after each post.
void write_lat_side(Exchange& exchange, io::Lease lease, const LoadOptions& options, bool server) {
  Endpoint endpoint{std::move(lease), server ? options.server : options.client, endpoint_options(options)};
  connect_sides(exchange, endpoint, server);
  // Sent from the first half of the memory, received in the second.
  const std::size_t remote = options.bytes;
  const volatile std::byte& arrived = endpoint.memory[2 * options.bytes - 1];
  std::vector<std::int64_t> times;
  times.reserve(2'000'000);
  Completion completion;
  const Instant end = monotonic_now() + Duration::from_ns(static_cast<std::int64_t>(options.seconds * 1e9));
  Instant sent = monotonic_now();
  const std::vector<Endpoint::Work> work{{.bytes = options.bytes, .remote = remote}};
  for (std::uint32_t round = 0; exchange.finished.load(std::memory_order_relaxed) == 0; ++round) {
    const auto token = static_cast<std::byte>(round % 255 + 1);
    if (round > 0 || server) {
      const auto expected = server ? token : static_cast<std::byte>((round - 1) % 255 + 1);
      while (arrived != expected && exchange.finished.load(std::memory_order_relaxed) == 0) {
      }
      if (!server) {
        const Instant now = monotonic_now();
        times.push_back((now - sent).ns());
        sent = now;
        if (now >= end) exchange.finished.store(1);
      }
    }
    endpoint.memory[options.bytes - 1] = token;
    if (!endpoint.post_list(WorkOpcode::kRdmaWrite, work).ok()) std::exit(1);
    while (!endpoint.poll(endpoint.send_cq, completion) && exchange.finished.load(std::memory_order_relaxed) == 0) {
    }
    if (completion.status != CompletionStatus::kSuccess) fail(completion);
  }
  if (!server) {
    take_times(exchange, times);
    take_statistics(exchange, endpoint);
  }
  barrier(exchange, 3);
}

void send_lat_side(Exchange& exchange, io::Lease lease, const LoadOptions& options, bool server) {
  constexpr unsigned kReceives = 64;
  Endpoint endpoint{std::move(lease), server ? options.server : options.client, endpoint_options(options)};
  connect_sides(exchange, endpoint, server, kReceives);
  std::vector<std::int64_t> times;
  times.reserve(2'000'000);
  Completion completion;
  const Instant end = monotonic_now() + Duration::from_ns(static_cast<std::int64_t>(options.seconds * 1e9));
  Instant sent = monotonic_now();
  const std::vector<Endpoint::Work> work{{.bytes = options.bytes}};
  const auto over = [&] { return exchange.finished.load(std::memory_order_relaxed) != 0; };
  for (std::uint32_t round = 0; !over(); ++round) {
    if (round > 0 || server) {
      bool got = false;
      while (!got && !over()) got = endpoint.poll(endpoint.receive_cq, completion);
      if (completion.status != CompletionStatus::kSuccess) fail(completion);
      if (got && !endpoint.post_receive(options.bytes, options.bytes).ok()) std::exit(1);
      if (!server) {
        const Instant now = monotonic_now();
        times.push_back((now - sent).ns());
        sent = now;
        if (now >= end) exchange.finished.store(1);
      }
    }
    if (!endpoint.post_list(WorkOpcode::kSend, work).ok()) std::exit(1);
    bool done = false;
    while (!done && !over()) done = endpoint.poll(endpoint.send_cq, completion);
  }
  if (!server) {
    take_times(exchange, times);
    take_statistics(exchange, endpoint);
  }
  barrier(exchange, 3);
}

}  // namespace brdma::bench
