// Cost of a packet in wire/: parse, encode, ICRC, the solver; payload sizes as the argument.
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "wire/control.h"
#include "wire/crc/icrc.h"
#include "wire/packet.h"

namespace {

using namespace brdma;  // a program, no header

const wire::IcrcPath kPath{.source = IpAddress::v4(10, 77, 0, 1),
                           .destination = IpAddress::v4(10, 77, 0, 2),
                           .source_port = 0xC000,
                           .destination_port = 4791,
                           .ip_id = 0};

wire::Packet write_middle(bool bitmap) {
  wire::Packet packet;
  packet.bth.opcode = wire::opcode_of(wire::RcOp::kWriteMiddle, bitmap);
  packet.bth.dest_qpn = 0x2203;
  packet.bxth = {.source_qpn = 0x1102, .msn = 1, .rsn = 1, .packet_index = 1, .timestamp = 1'000'000};
  packet.reth = {.address = 0x7F00'0000'1000, .rkey = 0x55AA, .length = 65536};
  return packet;
}

std::vector<std::byte> packet_of(bool bitmap, std::size_t payload) {
  const wire::Packet packet = write_middle(bitmap);
  std::vector<std::byte> bytes(wire::headers_size(packet) + payload + wire::kIcrcSize, std::byte{0x5A});
  wire::emit_headers(packet, bytes.data());
  store_le32(bytes.data() + bytes.size() - wire::kIcrcSize, wire::packet_icrc(kPath, bytes));
  return bytes;
}

void BM_ParseStandard(benchmark::State& state) {
  const auto bytes = packet_of(false, static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    auto parsed = wire::parse_packet(bytes);
    benchmark::DoNotOptimize(parsed);
  }
}
void BM_ParseBitmap(benchmark::State& state) {
  const auto bytes = packet_of(true, static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) {
    auto parsed = wire::parse_packet(bytes);
    benchmark::DoNotOptimize(parsed);
  }
}
void BM_EmitBitmap(benchmark::State& state) {
  wire::Packet packet = write_middle(true);
  std::array<std::byte, wire::kPacketHeadersMax> out{};
  for (auto _ : state) {
    ++packet.bth.psn;
    benchmark::DoNotOptimize(wire::emit_headers(packet, out.data()));
    benchmark::ClobberMemory();
  }
}
void BM_Icrc(benchmark::State& state) {
  const auto bytes = packet_of(true, static_cast<std::size_t>(state.range(0)));
  for (auto _ : state) benchmark::DoNotOptimize(wire::packet_icrc(kPath, bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
// A receiver's work for each packet.
void BM_ParseAndCheck(benchmark::State& state) {
  const auto bytes = packet_of(true, static_cast<std::size_t>(state.range(0)));
  const wire::IcrcFlow flow{kPath};
  for (auto _ : state) {
    auto parsed = wire::parse_packet(bytes);
    benchmark::DoNotOptimize(parsed);
    if (wire::packet_icrc(flow, 0, bytes) != wire::stored_icrc(bytes)) state.SkipWithError("ICRC");
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
// A sender's work: headers, ICRC over headers and payload.
void BM_EmitAndSeal(benchmark::State& state) {
  const wire::Packet packet = write_middle(true);
  const std::vector<std::byte> payload(static_cast<std::size_t>(state.range(0)), std::byte{0x5A});
  std::array<std::byte, wire::kPacketHeadersMax + wire::kIcrcSize> out{};
  const wire::IcrcFlow flow{kPath};
  for (auto _ : state) {
    const std::size_t headers = wire::emit_headers(packet, out.data());
    const std::size_t size = headers + payload.size() + wire::kIcrcSize;
    wire::Icrc icrc{flow, 0, size, MutableBytes{out}.first(headers)};
    icrc.update(payload);
    store_le32(out.data() + headers, icrc.finish());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
void BM_SolveIdentification(benchmark::State& state) {
  wire::IdentificationSolver solver;
  const auto bytes = packet_of(false, static_cast<std::size_t>(state.range(0)));
  wire::IcrcPath with = kPath;
  with.ip_id = 0xBEEF;
  const std::uint32_t difference = wire::packet_icrc(with, bytes) ^ wire::packet_icrc(kPath, bytes);
  for (auto _ : state) {
    std::uint16_t found = 0;
    benchmark::DoNotOptimize(solver.solve(difference, bytes.size(), found));
    benchmark::DoNotOptimize(found);
  }
}
// A length without a cached basis: it is built.
void BM_SolveNewLength(benchmark::State& state) {
  wire::IdentificationSolver solver;
  std::size_t size = 1040;
  for (auto _ : state) {
    std::uint16_t found = 0;
    benchmark::DoNotOptimize(solver.solve(0x1234'5678, size, found));
    size = size == 1040 ? 1040 + 256 : 1040;
  }
}
void BM_ParseBitmapAck(benchmark::State& state) {
  wire::BitmapAck ack;
  ack.bit_count = static_cast<std::uint16_t>(state.range(0));
  ack.highest = Psn{ack.bit_count};
  const std::vector<std::byte> bits(wire::bitmap_bytes(ack.bit_count));
  ack.bits = bits;
  std::vector<std::byte> body(wire::kBitmapAckSize + bits.size());
  wire::emit_bitmap_ack(ack, body.data());
  for (auto _ : state) {
    auto parsed = wire::parse_bitmap_ack(body, Psn{0});
    benchmark::DoNotOptimize(parsed);
  }
}

BENCHMARK(BM_ParseStandard)->Arg(64);
BENCHMARK(BM_ParseBitmap)->Arg(64)->Arg(4096);
BENCHMARK(BM_EmitBitmap);
BENCHMARK(BM_Icrc)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(BM_ParseAndCheck)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(BM_EmitAndSeal)->Arg(64)->Arg(1024)->Arg(4096);
BENCHMARK(BM_SolveIdentification)->Arg(1024);
BENCHMARK(BM_SolveNewLength);
BENCHMARK(BM_ParseBitmapAck)->Arg(0)->Arg(4096);

}  // namespace
