// tests/support/responder_parts.h - the parts of a responder, without it: for unit tests of the views of them
// (libbitmaprdma/qp/{respond,paths}). Real parts, wired as in a Responder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "memory/memory_table.h"
#include "qp/acknowledge/acknowledgement_schedule.h"
#include "qp/paths/response_paths.h"
#include "qp/paths/spray_responses.h"
#include "qp/respond/repeated_responses.h"
#include "qp/respond/replayed_responses.h"
#include "qp/respond/responder_resources.h"
#include "qp/respond/response_log.h"
#include "qp/respond/response_sender.h"
#include "qp/state/environment.h"
#include "qp/state/identity.h"

namespace brdma::test {

// Bitmap mode, an MTU of 1024; all requests before PSN 1010 have been executed, 7 messages. One region, of which the
// peer may read.
struct ResponderParts {
  static constexpr std::uint32_t kMtu = 1024, kMsn = 7;
  static constexpr std::uint64_t kStart = 0x10'0000;  // of the region, in requests

  ResponderParts() {
    identity.recovery = &recovery;
    identity.qpn = 17;
    identity.pd = memory.alloc_pd();
    identity.attributes.path_mtu = PathMtu::k1024;
    identity.attributes.access = kAccessRemoteRead;
    identity.attributes.max_dest_rd_atomic = 4;
    identity.attributes.destination_qpn = 18;
    identity.bitmap_agreed = true;
    resources.reset(4);
    ack.on_sent(Psn{1010});
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 7 + i / 256);
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    region = memory.add(identity.pd, address, bytes.size(), kStart, kAccessRemoteRead).value();
  }
  ResponderParts(const ResponderParts&) = delete;
  ResponderParts& operator=(const ResponderParts&) = delete;

  // Room for responses to duplicates is used up.
  void fill() {
    while (resources.room_for_replay()) resources.push(qp::Response{});
  }
  void pass(Duration time) { now = now + time; }
  [[nodiscard]] std::uint64_t count(Counter counter) const { return statistics.get(counter); }

  // --- views ---
  [[nodiscard]] qp::RepeatedResponses repeated() {
    return qp::RepeatedResponses{{.env = environment,
                                  .identity = identity,
                                  .window = window,
                                  .resources = resources,
                                  .log = log,
                                  .ack = ack,
                                  .round_trip = round_trip,
                                  .mtu = mtu,
                                  .msn = kMsn,
                                  .bitmap = bitmap,
                                  .serving = !halted,
                                  .established = established}};
  }
  [[nodiscard]] qp::SprayedResponses sprayed() { return qp::SprayedResponses{{environment, identity, paths}}; }
  [[nodiscard]] qp::ReplayedResponses replayed() {
    return qp::ReplayedResponses{{.env = environment,
                                  .identity = identity,
                                  .resources = resources,
                                  .ack = ack,
                                  .repeated = repeated(),
                                  .sprayed = sprayed(),
                                  .base = window.base(),
                                  .mtu = mtu,
                                  .msn = kMsn,
                                  .bitmap = bitmap}};
  }
  [[nodiscard]] qp::ResponseSender sender() {
    return qp::ResponseSender{{.env = environment,
                               .identity = identity,
                               .resources = resources,
                               .paths = paths.get(),
                               .log = log.get(),
                               .halted = halted,
                               .owed = owed,
                               .base = window.base(),
                               .mtu = mtu}};
  }

  alignas(8) std::array<std::byte, 16 * kMtu> bytes{};  // of the region
  EngineConfig config;
  memory::MemoryTable memory{SecretRandom{1, "keys"}};
  Statistics statistics;
  qp::Environment environment{.config = config, .memory = memory, .statistics = statistics};
  RecoveryConfig recovery;
  qp::Identity identity;
  MemoryRegion* region = nullptr;
  bitmap::ReceiveWindow window{Psn{1010}, {}, environment.segments};
  qp::ResponderResources resources;
  std::unique_ptr<qp::ResponseLog> log;
  std::unique_ptr<qp::ResponsePaths> paths;
  qp::AcknowledgementSchedule ack;
  Duration round_trip;  // of feedback
  std::uint32_t mtu = kMtu;
  bool halted = false;  // by an error
  std::optional<qp::Outcome> owed;
  bool bitmap = true, established = true;
  Instant now = Instant{} + 1_s;
};

}  // namespace brdma::test
