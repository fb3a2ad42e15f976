// The captures of a kernel Soft-RoCE peer against wire/: every packet decodes, its headers encode to the same bytes,
// its ICRC equals the computed one, and its identification is found when it is assumed unknown. The number of packets
// is asserted file by file, and each exception has its frame number and its reason here.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <map>
#include <string>

#include "support/pcap_file.h"
#include "wire/cm/cm_messages.h"
#include "wire/cm/mad.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace brdma {
namespace {

using test::CapturedPacket;
using Frame = std::pair<std::string, unsigned>;

struct Capture {
  const char* name;
  std::size_t packets;  // RoCE packets in the file
  std::size_t rc;       // of these, RC packets that parse_packet accepts; the others are UC and UD
};
constexpr Capture kCaptures[] = {
    {"atomic_cas", 10, 10},
    {"atomic_faa", 10, 10},
    {"cm_refused", 2, 0},
    {"mckey", 3, 0},
    {"probe_errors", 165, 160},
    {"rc_pingpong", 80, 80},
    {"rc_pingpong_ipv6", 30, 30},
    {"read_bw", 48, 48},
    {"read_lat", 30, 30},
    {"rping", 65, 60},
    {"rstream_imm", 55, 50},
    {"uc_pingpong", 60, 0},
    {"ucmatose", 17, 12},
    {"ud_pingpong", 20, 0},
    {"udaddy", 8, 0},
    {"write_lat", 40, 40},
};

// Packets sent by hand to test the kernel's reaction.
const std::map<Frame, DropReason> kUnacceptable = {
    {{"probe_errors", 20}, DropReason::kBadVersion},     // transport header version 1
    {{"probe_errors", 22}, DropReason::kBadPkey},        // P_Key 0x1234
    {{"probe_errors", 87}, DropReason::kUnknownOpcode},  // 0x1f, reserved
};
const Frame kWrongIcrc{"probe_errors", 19};        // on purpose
const Frame kMayBeFragmented{"probe_errors", 41};  // DF clear: a covered bit that a RoCE sender sets, and we assume
const Frame kReservedBitsSet{"probe_errors", 31};  // the seven bits behind AckReq: ignored, and not sent again

std::vector<CapturedPacket> packets_of(const Capture& capture) {
  return test::read_roce_packets(std::string{BRDMA_GOLDEN_DIR} + "/pcap/" + capture.name + ".pcap");
}

class GoldenPcap : public testing::TestWithParam<Capture> {};

TEST_P(GoldenPcap, PacketsDecodeAndEncodeToTheSameBytes) {
  std::size_t rc = 0, unreliable = 0, refused = 0;
  for (const auto& captured : packets_of(GetParam())) {
    SCOPED_TRACE(testing::Message() << "frame " << captured.number);
    const Frame frame{GetParam().name, captured.number};
    const auto& bytes = captured.udp_payload;
    const auto parsed = wire::parse_packet(bytes);
    if (const auto known = kUnacceptable.find(frame); known != kUnacceptable.end()) {
      ASSERT_FALSE(parsed.ok());
      EXPECT_EQ(parsed.reason(), known->second);
      ++refused;
      continue;
    }
    const auto transport = load_u8(bytes.data()) & wire::kTransportMask;
    ASSERT_TRUE(parsed.ok()) << kDropReasonNames[static_cast<std::size_t>(parsed.reason())];
    ++(transport == wire::kTransportRc ? rc : unreliable);
    const wire::Packet& packet = parsed.value();
    std::array<std::byte, wire::kPacketHeadersMax> headers{};
    const std::size_t size = wire::emit_headers(packet, headers.data());
    ASSERT_EQ(size + packet.payload.size() + packet.bth.pad + wire::kIcrcSize, bytes.size());
    EXPECT_EQ(packet.payload.data(), bytes.data() + size);
    auto sent = test::Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    if (frame == kReservedBitsSet) {
      EXPECT_EQ(sent[8], std::byte{0xFF});
      sent[8] = std::byte{0x80};
    }
    EXPECT_EQ(test::to_hex(ConstBytes{headers}.first(size)), test::to_hex(sent));
  }
  EXPECT_EQ(rc, GetParam().rc);
  EXPECT_EQ(rc + unreliable + refused, GetParam().packets);
}

// All transports: the ICRC does not care.
TEST_P(GoldenPcap, IcrcMatchesAndGivesTheIdentification) {
  wire::IdentificationSolver solver;
  std::size_t matched = 0, solved = 0, ipv6 = 0, exceptions = 0;
  for (const auto& captured : packets_of(GetParam())) {
    SCOPED_TRACE(testing::Message() << "frame " << captured.number);
    const Frame frame{GetParam().name, captured.number};
    const std::uint32_t stored = wire::stored_icrc(captured.udp_payload);
    EXPECT_EQ(captured.dont_fragment, frame != kMayBeFragmented);
    wire::IcrcPath without_id = captured.path;
    without_id.ip_id = 0;
    const std::uint32_t difference = wire::packet_icrc(without_id, captured.udp_payload) ^ stored;
    std::uint16_t found = 0;
    if (frame == kWrongIcrc || frame == kMayBeFragmented) {
      EXPECT_NE(wire::packet_icrc(captured.path, captured.udp_payload), stored);
      EXPECT_FALSE(solver.solve(difference, captured.udp_payload.size(), found));
      ++exceptions;
      continue;
    }
    EXPECT_EQ(wire::packet_icrc(captured.path, captured.udp_payload), stored);
    ++matched;
    if (captured.ipv6) {
      ++ipv6;
      continue;
    }
    ASSERT_TRUE(solver.solve(difference, captured.udp_payload.size(), found));
    EXPECT_EQ(found, captured.path.ip_id);
    ++solved;
  }
  EXPECT_EQ(matched + exceptions, GetParam().packets);
  EXPECT_EQ(exceptions, GetParam().name == std::string{"probe_errors"} ? 2u : 0u);
  EXPECT_EQ(ipv6, GetParam().name == std::string{"rc_pingpong_ipv6"} ? 30u : 0u);
  EXPECT_EQ(solved + ipv6, matched);
}

// The header that all transports share is parsed before the opcode; here it is tested alone.
TEST_P(GoldenPcap, BthDecodesForEveryTransport) {
  std::size_t seen = 0;
  for (const auto& captured : packets_of(GetParam())) {
    SCOPED_TRACE(testing::Message() << "frame " << captured.number);
    ASSERT_GE(captured.udp_payload.size(), wire::kBthSize);
    const auto bytes = wire::Field<wire::kBthSize>{captured.udp_payload.data(), wire::kBthSize};
    const wire::Bth bth = wire::parse_bth(bytes);
    std::array<std::byte, wire::kBthSize> out{};
    wire::emit_bth(bth, out.data());
    const Frame frame{GetParam().name, captured.number};
    const bool odd_bits = frame == kReservedBitsSet || wire::bth_version(bytes) != 0;
    EXPECT_EQ(std::equal(out.begin(), out.end(), bytes.begin()), !odd_bits);
    if (bth.opcode == 0x64 || bth.opcode == 0x65) {
      const bool qp1 = bth.dest_qpn == 1, multicast = bth.dest_qpn == 0xFF'FFFF;
      EXPECT_EQ(bth.ack_request, qp1) << "on QP1 the kernel asks for acknowledgements that nobody sends";
      EXPECT_EQ(multicast, std::string{GetParam().name} == "mckey");
    }
    ++seen;
  }
  EXPECT_EQ(seen, GetParam().packets);
}

// Each side of a connection names the first PSN of the *other* one.
TEST(GoldenPcapFiles, RequestsBeginAtTheAnnouncedPsn) {
  const auto packets = test::read_roce_packets(std::string{BRDMA_GOLDEN_DIR} + "/pcap/rping.pcap");
  std::map<std::uint32_t, Psn> announced;  // by the destination queue pair of requests
  std::map<std::uint32_t, Psn> first;      // the first request to a queue pair
  for (const auto& captured : packets) {
    if (const auto mad = wire::parse_gsi_packet(captured.udp_payload)) {
      const auto cm = wire::parse_cm(*mad);
      ASSERT_TRUE(cm.has_value());
      if (const auto* req = std::get_if<wire::CmReq>(&cm->message)) announced.emplace(req->qpn, req->first_psn);
      if (const auto* rep = std::get_if<wire::CmRep>(&cm->message)) announced.emplace(rep->qpn, rep->first_psn);
      continue;
    }
    const wire::Bth bth = wire::parse_bth(wire::Field<wire::kBthSize>{captured.udp_payload.data(), wire::kBthSize});
    if (bth.opcode <= 0x0C) first.emplace(bth.dest_qpn, bth.psn);  // requests, not responses
  }
  EXPECT_EQ(announced.size(), 2u);
  EXPECT_EQ(first, announced);
}

INSTANTIATE_TEST_SUITE_P(KernelPeer, GoldenPcap, testing::ValuesIn(kCaptures),
                         [](const auto& info) { return std::string{info.param.name}; });

TEST(GoldenPcapFiles, AllAreInTheTable) {
  std::size_t files = 0, packets = 0, rc = 0;
  for (const auto& entry : std::filesystem::directory_iterator{std::string{BRDMA_GOLDEN_DIR} + "/pcap"}) {
    files += entry.path().extension() == ".pcap" ? 1 : 0;
  }
  for (const auto& capture : kCaptures) {
    packets += capture.packets;
    rc += capture.rc;
  }
  EXPECT_EQ(files, std::size(kCaptures));
  EXPECT_EQ(packets, 643u);
  EXPECT_EQ(rc, 530u);
}

// The reader itself must not skip damage.
TEST(PcapFile, RefusesWhatIsNotWhole) {
  const auto file = std::filesystem::path{testing::TempDir()} / ("cut-" + std::to_string(::getpid()) + ".pcap");
  const auto whole = std::string{BRDMA_GOLDEN_DIR} + "/pcap/atomic_cas.pcap";
  const auto size = std::filesystem::file_size(whole);
  for (const std::uintmax_t kept : {std::uintmax_t{10}, std::uintmax_t{30}, size - 1}) {
    std::filesystem::copy_file(whole, file, std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(file, kept);
    EXPECT_THROW((void)test::read_roce_packets(file), std::runtime_error) << kept;
  }
  std::filesystem::remove(file);
  EXPECT_THROW((void)test::read_roce_packets(file), std::runtime_error);
}

}  // namespace
}  // namespace brdma
