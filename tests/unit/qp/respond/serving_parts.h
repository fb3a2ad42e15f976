// The parts of a responder with responses in progress, and what leaves of them: for the tests of
// qp/respond/response_sender.h.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "qp/respond/response_sender.h"
#include "support/responder_parts.h"

namespace brdma::qp {

inline constexpr std::uint32_t kMtu = test::ResponderParts::kMtu, kMessage = 3;
inline constexpr std::uint64_t kToken = 0x1122'3344'5566'7788;

struct Nak {
  std::uint8_t syndrome;
  std::uint32_t msn;
  Psn psn;
  bool bitmap;
  bool operator==(const Nak&) const = default;
};

struct Serving : test::ResponderParts {
  Serving() {
    config.segments_max = 8;
    config.source_ports = {0xC000, 0xC001};
    identity.peer_token = kToken;
  }
  [[nodiscard]] Response read(std::uint32_t psn, std::uint32_t bytes_left) const {
    Response response;
    response.kind = Response::Kind::kRead;
    response.bitmap = true;
    response.psn = Psn{psn};
    response.msn = kMsn;
    response.rkey = key;
    response.address = kStart;
    response.bytes_left = bytes_left;
    response.message = kMessage;
    return response;
  }
  static Response again(Response response, bool unasked = false) {
    response.replay = true;
    response.unasked = unasked;
    return response;
  }
  static Response standard(Response response) {
    response.bitmap = false;
    return response;
  }
  static Response atomic(std::uint32_t psn, std::uint64_t original) {
    Response response;
    response.kind = Response::Kind::kAtomic;
    response.bitmap = true;
    response.psn = Psn{psn};
    response.msn = 5;
    response.message = kMessage;
    response.original = original;
    return response;
  }
  static Response nak(std::uint32_t psn, std::uint8_t syndrome = wire::kSyndromeNakSequence) {
    Response response;
    response.bitmap = true;
    response.psn = Psn{psn};
    response.msn = kMsn;
    response.syndrome = syndrome;
    return response;
  }
  void push(const Response& response) { resources.push(response); }
  void remove_region() { ASSERT_TRUE(memory.remove(region).ok()); }

  // One batch. Returns its packets, whose payloads stay until the next one.
  std::vector<wire::Packet> poll(bool naks_too = true, std::uint8_t path = 0) {
    TransmitBatch batch(*buffer, config);
    batch.begin({.source = IpAddress::v4(10, 0, 0, 1), .destination = IpAddress::v4(10, 0, 0, 2), .path = path});
    const auto send_nak = [&](const wire::Aeth& aeth, Psn psn, bool in_bitmap_mode) {
      if (!naks_fit) return false;
      naks.push_back({aeth.syndrome, aeth.msn, psn, in_bitmap_mode});
      return true;
    };
    added = sender().poll(batch, naks_too, send_nak, now);
    sent.clear();
    Transmit out;
    if (!batch.finish(out)) return {};
    EXPECT_FALSE(batch.faulted());
    for (const Slice& slice : out.slices) {
      const auto* const data = static_cast<const std::byte*>(slice.data);
      sent.insert(sent.end(), data, data + slice.size);
    }
    std::vector<wire::Packet> packets;
    for (std::size_t at = 0; at < sent.size(); at += out.segment_bytes) {
      const std::size_t size = std::min<std::size_t>(out.segment_bytes, sent.size() - at);
      const auto parsed = wire::parse_packet(ConstBytes{sent}.subspan(at, size));
      EXPECT_TRUE(parsed.ok());
      if (!parsed.ok()) continue;
      const wire::Packet& packet = parsed.value();
      if (packet.op == wire::RcOp::kAcknowledge) {
        EXPECT_EQ(packet.bxth.token, kToken);
        naks.push_back({packet.aeth.syndrome, packet.aeth.msn, packet.bth.psn, packet.bitmap});
      } else {
        packets.push_back(packet);
      }
    }
    return packets;
  }
  // PSNs of a batch.
  std::vector<std::uint32_t> poll_psns(bool naks_too = true, std::uint8_t path = 0) {
    std::vector<std::uint32_t> psns;
    for (const wire::Packet& packet : poll(naks_too, path)) psns.push_back(packet.bth.psn.value());
    return psns;
  }
  // `payload` is the region's from there on.
  [[nodiscard]] bool is_data(ConstBytes payload, std::size_t from) const {
    return std::equal(payload.begin(), payload.end(), bytes.begin() + static_cast<std::ptrdiff_t>(from));
  }
  // A READ was refused at this PSN, and the queue pair is to fail.
  void expect_refused(std::uint32_t psn) {
    EXPECT_TRUE(halted);
    EXPECT_TRUE(responses.read_refused);
    EXPECT_EQ(count(Counter::kRemoteAccessErrors), 1U);
    EXPECT_THAT(naks, testing::ElementsAre(Nak{wire::kSyndromeNakRemoteAccess, kMsn - 1, Psn{psn}, true}));
    EXPECT_TRUE(resources.empty());
  }
  void make_paths() { paths = std::make_unique<ResponsePaths>(2, Spraying::kRoundRobin); }

  std::unique_ptr<TransmitBuffer> buffer = std::make_unique<TransmitBuffer>();
  std::vector<std::byte> sent;
  std::vector<Nak> naks;
  bool naks_fit = true;
  std::uint32_t key = region->key;  // also once it is removed
  bool added = false;               // by the last batch
};

}  // namespace brdma::qp
