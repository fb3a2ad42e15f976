// Responses in progress leave (qp/respond/response_sender.h): READ responses, results of atomics, NAKs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "memory/guard.h"
#include "qp/respond/response_sender.h"
#include "qp/state/local_path.h"
#include "support/responder_parts.h"
#include "trace/events.h"
#include "wire/local_reference.h"

namespace brdma::qp {
namespace {

using Kind = Response::Kind;
using testing::ElementsAre;
using testing::IsEmpty;
using wire::RcOp;

constexpr std::uint32_t kMtu = test::ResponderParts::kMtu, kMessage = 3;
constexpr std::uint64_t kToken = 0x1122'3344'5566'7788;

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
    response.kind = Kind::kRead;
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
    response.kind = Kind::kAtomic;
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
      if (packet.op == RcOp::kAcknowledge) {
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
    ASSERT_TRUE(owed.has_value());
    EXPECT_TRUE(owed->to_error);
    EXPECT_EQ(owed->async_event, kEventQpAccessError);
    EXPECT_EQ(count(Counter::kRemoteAccessErrors), 1U);
    EXPECT_THAT(naks, ElementsAre(Nak{wire::kSyndromeNakRemoteAccess, kMsn - 1, Psn{psn}, true}));
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

// --- READ responses ---

TEST(ResponseSender, AReadsDataIsCutAtTheMtu) {
  Serving responder;
  responder.push(responder.read(1003, 2 * kMtu + 100));
  const auto packets = responder.poll();
  ASSERT_EQ(packets.size(), 3U);
  constexpr RcOp kOps[] = {RcOp::kReadResponseFirst, RcOp::kReadResponseMiddle, RcOp::kReadResponseLast};
  for (std::uint32_t i = 0; i < 3; ++i) {
    const wire::Packet& packet = packets[i];
    EXPECT_EQ(packet.op, kOps[i]);
    EXPECT_TRUE(packet.bitmap);
    EXPECT_EQ(packet.bth.dest_qpn, 18U);
    EXPECT_EQ(packet.bth.psn, Psn{1003 + i});
    EXPECT_EQ(packet.aeth.syndrome, wire::kSyndromeAck);
    EXPECT_EQ(packet.aeth.msn, Serving::kMsn);
    EXPECT_EQ(packet.bxth.source_qpn, 17U);
    EXPECT_EQ(packet.bxth.token, kToken);
    EXPECT_EQ(packet.bxth.msn, kMessage);
    EXPECT_EQ(packet.bxth.packet_index, i);
    EXPECT_EQ(packet.bxth.timestamp, wire::timestamp_of(responder.now));
    EXPECT_FALSE(packet.bxth.retransmitted);
    EXPECT_EQ(packet.payload.size(), i < 2 ? kMtu : 100U);
    EXPECT_TRUE(responder.is_data(packet.payload, i * kMtu));
  }
  EXPECT_TRUE(responder.added);
  EXPECT_TRUE(responder.resources.empty());
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 3U);
}

TEST(ResponseSender, AShortReadIsOnePacket) {
  for (const std::uint32_t bytes : {0u, 1u, 100u, kMtu}) {
    Serving responder;
    responder.push(responder.read(1003, bytes));
    const auto packets = responder.poll();
    ASSERT_EQ(packets.size(), 1U);
    EXPECT_EQ(packets[0].op, RcOp::kReadResponseOnly);
    EXPECT_EQ(packets[0].payload.size(), bytes);
    EXPECT_TRUE(responder.is_data(packets[0].payload, 0));
  }
}

// Only MIDDLE packets of bitmap mode have an AETH, so that all full responses are of one size.
TEST(ResponseSender, AStandardReadsMiddlePacketsEndABatch) {
  Serving responder;
  responder.push(Serving::standard(responder.read(1003, 4 * kMtu)));
  const auto first = responder.poll();
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].op, RcOp::kReadResponseFirst);
  EXPECT_EQ(first[1].op, RcOp::kReadResponseMiddle);
  EXPECT_FALSE(first[0].bitmap || first[1].bitmap);
  EXPECT_TRUE(responder.is_data(first[1].payload, kMtu));
  const auto second = responder.poll();
  ASSERT_EQ(second.size(), 1U);
  EXPECT_EQ(second[0].op, RcOp::kReadResponseMiddle);
  EXPECT_TRUE(responder.is_data(second[0].payload, 2 * kMtu));
  EXPECT_EQ(responder.poll().at(0).op, RcOp::kReadResponseLast);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, ALongReadTakesSeveralBatches) {
  for (const std::uint32_t mtu : {256u, kMtu}) {  // payloads of 256 bytes are copied
    Serving responder;
    responder.mtu = mtu;
    responder.push(responder.read(1000, 10 * mtu));
    std::uint32_t next = 0;
    for (const std::size_t packets_of_it : {8u, 2u}) {
      const auto packets = responder.poll();
      ASSERT_EQ(packets.size(), packets_of_it);
      for (const wire::Packet& packet : packets) {
        EXPECT_EQ(packet.bth.psn, Psn{1000 + next});
        EXPECT_EQ(packet.bxth.packet_index, next);
        EXPECT_EQ(packet.bxth.msn, kMessage);
        EXPECT_EQ(packet.op, next == 0   ? RcOp::kReadResponseFirst
                             : next == 9 ? RcOp::kReadResponseLast
                                         : RcOp::kReadResponseMiddle);
        EXPECT_EQ(packet.payload.size(), mtu);
        EXPECT_TRUE(responder.is_data(packet.payload, std::size_t{next} * mtu));
        ++next;
      }
    }
    EXPECT_EQ(responder.count(Counter::kSentDataPackets), 10U);
    EXPECT_TRUE(responder.resources.empty());
  }
}

TEST(ResponseSender, APacketThatDoesNotFitWaits) {
  Serving responder;
  responder.config.segments_max = 1;
  responder.push(responder.read(1003, 2 * kMtu));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1003U));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1004U));
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, ResponsesLeaveInTheOrderOfTheirRequests) {
  Serving responder;
  responder.push(responder.read(1003, 2 * kMtu));
  responder.push(Serving::atomic(1005, 42));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1003U, 1004U, 1005U));
}

// --- sent again ---

TEST(ResponseSender, OneSentAgainIsMarkedAndNotCountedAsNew) {
  Serving responder;
  responder.push(Serving::again(responder.read(1003, 4 * kMtu)));
  const auto packets = responder.poll();
  ASSERT_EQ(packets.size(), 4U);
  for (const wire::Packet& packet : packets) EXPECT_TRUE(packet.bxth.retransmitted);
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 0U);
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 0U) << "no switch has reported it";
}

TEST(ResponseSender, EachPacketSentAgainIsLogged) {
  Serving responder;
  const Response read = responder.read(1003, 4 * kMtu);
  log_response(responder.log, responder.identity, read, /*is_read=*/true, kMtu, responder.now);
  responder.push(Serving::again(read, /*unasked=*/true));
  (void)responder.poll();
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 4U);
  for (std::uint32_t psn = 1003; psn < 1007; ++psn) {
    EXPECT_TRUE(responder.repeated().have_just_left(Psn{psn}, 1, responder.now)) << psn;
  }
}

TEST(ResponseSender, TheFirstTransmissionIsNoRepetition) {
  Serving responder;
  const Response read = responder.read(1003, kMtu);
  log_response(responder.log, responder.identity, read, /*is_read=*/true, kMtu, responder.now);
  responder.push(read);
  (void)responder.poll();
  const wire::Edn report{.first = Psn{1003}, .last = Psn{1003}, .responses = true};
  EXPECT_EQ(responder.repeated().on_report(report, responder.now), kMtu) << "it may leave again at once";
}

// --- memory that goes away ---

TEST(ResponseSender, TheKeyIsLookedUpWhenAPacketLeaves) {
  Serving responder;
  responder.config.segments_max = 2;
  responder.push(responder.read(1000, 10 * kMtu));
  responder.push(Serving::atomic(1011, 42));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1000U, 1001U));
  responder.remove_region();
  EXPECT_THAT(responder.poll_psns(), IsEmpty()) << "later responses are dropped";
  EXPECT_TRUE(responder.added);
  responder.expect_refused(1002);
}

TEST(ResponseSender, WhatCanBeReadOfARunLeaves) {
  Serving responder;
  Response read = responder.read(1000, 6 * kMtu);
  read.address += 13 * kMtu;  // the region has 16
  responder.push(read);
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1000U, 1001U, 1002U));
  responder.expect_refused(1003);
}

TEST(ResponseSender, AQueuePairFailsOnce) {
  Serving responder;
  responder.halted = true;
  responder.remove_region();
  responder.push(responder.read(1000, kMtu));
  EXPECT_THAT(responder.poll_psns(), IsEmpty());
  EXPECT_FALSE(responder.owed.has_value());
  EXPECT_EQ(responder.count(Counter::kRemoteAccessErrors), 0U);
  EXPECT_EQ(responder.naks.size(), 1U);
}

TEST(ResponseSender, TheMsnBeforeTheFirstIsTheLast) {
  Serving responder;
  responder.remove_region();
  Response read = responder.read(1000, kMtu);
  read.msn = 0;
  responder.push(read);
  (void)responder.poll();
  ASSERT_EQ(responder.naks.size(), 1U);
  EXPECT_EQ(responder.naks[0].msn, 0xFF'FFFFU);
}

TEST(ResponseSender, OfAReportedDropMemoryThatIsGoneIsNoError) {
  Serving responder;
  responder.remove_region();
  responder.push(Serving::again(responder.read(1000, 3 * kMtu), /*unasked=*/true));
  EXPECT_THAT(responder.poll_psns(), IsEmpty());
  EXPECT_FALSE(responder.added || responder.halted);
  EXPECT_FALSE(responder.owed.has_value());
  EXPECT_EQ(responder.count(Counter::kEdnPacketsGone), 3U);
  EXPECT_TRUE(responder.resources.empty());
}

// As a driver's handler: without one, a fault ends the program (memory/guard.h).
void survive_faults() {
  struct sigaction action {};
  action.sa_sigaction = [](int, siginfo_t* info, void* context) {
    if (!memory::recover(info->si_addr, context)) std::abort();
  };
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  ASSERT_EQ(::sigaction(SIGSEGV, &action, nullptr), 0);
  ASSERT_EQ(::sigaction(SIGBUS, &action, nullptr), 0);
}

// 64 KiB may be read, and the 64 KiB behind it no more.
struct Pages {
  static constexpr std::size_t kSize = 65'536;
  Pages() {
    EXPECT_NE(at, MAP_FAILED);
    EXPECT_EQ(::mprotect(static_cast<std::byte*>(at) + kSize, kSize, PROT_NONE), 0);
  }
  ~Pages() { ::munmap(at, 2 * kSize); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void* at = ::mmap(nullptr, 2 * kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
};

// The READ begins three packets before the end of what may be read.
TEST(ResponseSender, MemoryThatIsUnmappedIsRefusedToo) {
  survive_faults();
  const Pages pages;
  Serving responder;
  responder.memory.be_careful();
  const auto address = reinterpret_cast<std::uintptr_t>(pages.at);
  const MemoryRegion* const region =
      responder.memory.add(responder.identity.pd, address, 2 * Pages::kSize, address, kAccessRemoteRead).value();
  Response read = responder.read(1000, 6 * kMtu);
  read.rkey = region->key;
  read.address = address + Pages::kSize - 3 * kMtu;
  responder.push(read);
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1000U, 1001U, 1002U));
  responder.expect_refused(1003);
}

// --- by reference ---

struct Local : Serving {
  static constexpr std::uint64_t kKey = 0x1111;
  Local() {
    identity.local = &path;
    Response response = read(1003, 4 * kMtu);
    response.by_reference = true;
    push(response);
  }
  LocalPath path{environment.beacons, LocalClaim{}, {kKey, 1}};
};

TEST(ResponseSender, AReferenceNamesTheData) {
  Local responder;
  const auto packets = responder.poll();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op, RcOp::kReadResponseOnly);
  EXPECT_EQ(packets[0].bth.psn, Psn{1003});
  EXPECT_TRUE(packets[0].bxth.by_reference());
  const auto reference = wire::parse_reference(packets[0].payload);
  ASSERT_TRUE(reference.has_value());
  EXPECT_EQ(reference->key, Local::kKey);
  const LocalPiece whole{reinterpret_cast<std::uintptr_t>(responder.bytes.data()), 4 * kMtu};
  ASSERT_EQ(reference->pieces().size(), 1U);
  EXPECT_EQ(reference->pieces().front(), whole);
  EXPECT_EQ(responder.count(Counter::kByReference), 1U);
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 1U);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, AReferenceThatDoesNotFitWaits) {
  Local responder;
  responder.config.segments_max = 1;
  const Response second = responder.resources.front();
  responder.push(second);
  EXPECT_EQ(responder.poll().size(), 1U);
  EXPECT_EQ(responder.resources.size(), 1U);
}

TEST(ResponseSender, AReferenceToMemoryThatIsGoneIsRefused) {
  Local responder;
  responder.remove_region();
  EXPECT_THAT(responder.poll_psns(), IsEmpty());
  responder.expect_refused(1003);
}

TEST(ResponseSender, WithoutAnAgreementAReferenceIsDropped) {
  Local responder;
  responder.identity.local = nullptr;
  EXPECT_THAT(responder.poll_psns(), IsEmpty());
  EXPECT_FALSE(responder.added);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, AReferenceSentAgainIsLogged) {
  Local responder;
  responder.resources.front().replay = responder.resources.front().unasked = true;
  (void)responder.poll();
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 0U);
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 1U);
}

// --- atomics ---

TEST(ResponseSender, AnAtomicsResultLeaves) {
  Serving responder;
  responder.push(Serving::atomic(1005, 42));
  const auto packets = responder.poll();
  ASSERT_EQ(packets.size(), 1U);
  EXPECT_EQ(packets[0].op, RcOp::kAtomicAcknowledge);
  EXPECT_TRUE(packets[0].bitmap);
  EXPECT_EQ(packets[0].bth.psn, Psn{1005});
  EXPECT_EQ(packets[0].aeth.msn, 5U);
  EXPECT_EQ(packets[0].bxth.msn, kMessage);
  EXPECT_EQ(packets[0].atomic_original, 42U);
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 1U);
}

TEST(ResponseSender, AnAtomicsResultThatDoesNotFitWaits) {
  Serving responder;
  responder.config.segments_max = 1;
  responder.push(Serving::atomic(1005, 42));
  responder.push(Serving::atomic(1006, 43));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1005U));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1006U));
}

TEST(ResponseSender, AnAtomicsResultSentAgainIsLogged) {
  Serving responder;
  responder.push(Serving::again(Serving::atomic(1005, 42), /*unasked=*/true));
  EXPECT_TRUE(responder.poll().at(0).bxth.retransmitted);
  EXPECT_EQ(responder.count(Counter::kSentDataPackets), 0U);
  EXPECT_EQ(responder.count(Counter::kRetransmittedEdn), 1U);
}

// --- NAKs ---

TEST(ResponseSender, ANakStandsBehindResponsesToEarlierRequests) {
  Serving responder;
  responder.push(responder.read(1009, kMtu));
  responder.push(Serving::nak(1010));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1009U));
  EXPECT_THAT(responder.naks, ElementsAre(Nak{wire::kSyndromeNakSequence, Serving::kMsn, Psn{1010}, true}));
  EXPECT_EQ(responder.count(Counter::kSentSeqNak), 1U);
  EXPECT_TRUE(responder.resources.empty());
}

TEST(ResponseSender, OnSeveralPathsItWaitsForItsOwn) {
  Serving responder;
  responder.push(responder.read(1009, kMtu));
  responder.push(Serving::nak(1010));
  responder.push(Serving::atomic(1010, 42));
  EXPECT_THAT(responder.poll_psns(/*naks_too=*/false), ElementsAre(1009U));
  EXPECT_THAT(responder.poll_psns(/*naks_too=*/false), IsEmpty());
  EXPECT_FALSE(responder.added);
  EXPECT_THAT(responder.naks, IsEmpty());
  EXPECT_EQ(responder.resources.size(), 2U);
}

TEST(ResponseSender, AnRnrNakIsNoSequenceNak) {
  Serving responder;
  responder.push(Serving::nak(1010, wire::kSyndromeRnr));
  (void)responder.poll();
  EXPECT_EQ(responder.naks.size(), 1U);
  EXPECT_EQ(responder.count(Counter::kSentSeqNak), 0U);
}

TEST(ResponseSender, OfAPacketThatHasComeNoNakLeaves) {
  Serving responder;
  responder.push(Serving::nak(1009));
  responder.push(Serving::atomic(1009, 42));
  EXPECT_THAT(responder.poll_psns(), ElementsAre(1009U));
  EXPECT_THAT(responder.naks, IsEmpty());
  responder.push(Serving::nak(1009));
  (void)responder.poll();
  EXPECT_FALSE(responder.added);
}

// A BitmapAck's NAK is of the base. Of another PSN, a peer in bitmap mode takes none without a token.
TEST(ResponseSender, AfterAnErrorItLeavesInAnyCase) {
  Serving responder;
  responder.halted = true;
  responder.push(Serving::nak(1009, wire::kSyndromeNakInvalidRequest));
  (void)responder.poll();
  EXPECT_THAT(responder.naks,
              ElementsAre(Nak{wire::kSyndromeNakInvalidRequest, Serving::kMsn, Psn{1009}, /*bitmap=*/true}));
}

TEST(ResponseSender, TheNakThatEndsTheConnectionIsKept) {
  Serving responder;
  responder.push(Serving::nak(1010));
  (void)responder.poll();
  EXPECT_EQ(responder.responses.refusal, nullptr) << "a sequence NAK ends nothing";
  responder.halted = true;
  responder.push(Serving::nak(1010, wire::kSyndromeNakRemoteAccess));
  (void)responder.poll();
  ASSERT_NE(responder.responses.refusal, nullptr);
  EXPECT_EQ(responder.responses.refusal->psn, Psn{1010});
  EXPECT_EQ(responder.responses.refusal->syndrome, wire::kSyndromeNakRemoteAccess);
}

TEST(ResponseSender, AStandardPeersNakIsStandard) {
  Serving responder;
  responder.push(Serving::standard(Serving::nak(1010)));
  (void)responder.poll();
  ASSERT_EQ(responder.naks.size(), 1U);
  EXPECT_FALSE(responder.naks[0].bitmap);
}

TEST(ResponseSender, ANakThatDoesNotFitWaits) {
  Serving responder;
  responder.naks_fit = false;
  responder.push(Serving::nak(1010));
  (void)responder.poll();
  EXPECT_FALSE(responder.added);
  EXPECT_EQ(responder.count(Counter::kSentSeqNak), 0U);
  EXPECT_EQ(responder.resources.size(), 1U);
}

// --- several paths ---

TEST(ResponseSender, EachPacketNamesItsPathAndThoseBeforeItThere) {
  Serving responder;
  responder.make_paths();
  responder.push(responder.read(1000, 4 * kMtu));
  const auto packets = responder.poll(/*naks_too=*/true, /*path=*/1);
  ASSERT_EQ(packets.size(), 4U);
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_EQ(packets[i].bxth.path, 1);
    EXPECT_EQ(packets[i].bxth.before.distance, i == 0 ? 0 : 1);
    EXPECT_EQ(packets[i].bxth.before.run, std::max(i, 1u));
  }
}

TEST(ResponseSender, ABatchThatHasLeftIsNoted) {
  Serving responder;
  responder.make_paths();
  responder.push(responder.read(1000, kMtu));
  EXPECT_EQ(responder.paths->choose({}, std::nullopt, responder.now), 0);
  (void)responder.poll();
  EXPECT_EQ(responder.paths->choose({}, std::nullopt, responder.now), 1) << "the other path's turn";
  responder.push(Serving::nak(1009));
  (void)responder.poll(/*naks_too=*/true, /*path=*/1);
  EXPECT_EQ(responder.paths->choose({}, std::nullopt, responder.now), 1) << "nothing has left";
}

TEST(ResponseSender, AStandardResponseIsNoneOfThePaths) {
  Serving responder;
  responder.make_paths();
  responder.push(Serving::standard(responder.read(1000, kMtu)));
  (void)responder.poll();
  responder.push(responder.read(1001, kMtu));
  EXPECT_EQ(responder.poll().at(0).bxth.before.distance, 0) << "nothing of bitmap mode was before it";
}

// Three batches in a row were lost on the second path alone: a probe is one packet.
TEST(ResponseSender, APathThatIsSetAsideGetsAProbe) {
  Serving responder;
  responder.make_paths();
  for (std::uint32_t batch = 0; batch < 6; ++batch) {
    responder.push(responder.read(990 + batch, kMtu));
    (void)responder.poll(/*naks_too=*/true, static_cast<std::uint8_t>(batch % 2));
  }
  for (const std::uint32_t psn : {991u, 993u, 995u}) responder.sprayed().on_rerequest(Psn{psn}, 1, responder.now);
  responder.push(responder.read(1000, 4 * kMtu));
  EXPECT_THAT(responder.poll_psns(/*naks_too=*/true, /*path=*/1), ElementsAre(1000U));
  EXPECT_THAT(responder.poll_psns(/*naks_too=*/true, /*path=*/0), ElementsAre(1001U, 1002U, 1003U));
}

// --- trace ---

class Watcher : public trace::Sink {
 public:
  void record(Instant /*when*/, std::uint32_t qpn, const trace::Event& event) override {
    EXPECT_EQ(qpn, 17U);
    if (const auto* const packet = std::get_if<trace::PacketSent>(&event)) seen.push_back(*packet);
  }
  std::vector<trace::PacketSent> seen;
};

TEST(ResponseSender, EachPacketIsTraced) {
  Serving responder;
  Watcher watcher;
  responder.environment.sink = &watcher;
  responder.push(responder.read(1000, 4 * kMtu + 100));
  responder.push(Serving::again(Serving::atomic(1005, 42)));
  (void)responder.poll();
  (void)responder.poll();
  constexpr RcOp kOps[] = {RcOp::kReadResponseFirst,  RcOp::kReadResponseMiddle, RcOp::kReadResponseMiddle,
                           RcOp::kReadResponseMiddle, RcOp::kReadResponseLast,   RcOp::kAtomicAcknowledge};
  ASSERT_EQ(watcher.seen.size(), 6U);
  for (std::uint32_t i = 0; i < 6; ++i) {
    const trace::PacketSent& packet = watcher.seen[i];
    EXPECT_EQ(packet.opcode, wire::opcode_of(kOps[i], /*bitmap=*/true));
    EXPECT_EQ(packet.psn, Psn{1000 + i});
    EXPECT_EQ(packet.bytes, i < 4 ? kMtu : i == 4 ? 100U : 8U);
    EXPECT_EQ(packet.retransmission, i == 5);
  }
}

}  // namespace
}  // namespace brdma::qp
