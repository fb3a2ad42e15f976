// probe/probe.h - `brdma check-probe`: what a verbs program gets here. A process of its own, which `brdma check` starts
// as `brdma run` starts a program; it loads libibverbs when it runs, so brdma itself needs none. Prints one JSON object
// (collect/probe_facts.cc reads it); messages of the library are on standard error.
//   local               opens each active device of ours, makes two queue pairs, and writes from one to the other
//   connect HOST PORT   measures the path to `listen` there
//   listen PORT [once]  serves measurements, one after the other
// The two ends of a measurement:
//   1. TCP carries lines of JSON, requests and one reply each (control.h); it also gives TCP's own figures.
//   2. Both addresses are those of the TCP connection, so a peer cannot make this host send to anybody else.
//   3. UD datagrams count loss, reordering and sizes of each direction; RC carries WRITEs and READs.
// Numbers of a peer are checked against kLimits before use; a measurement ends after kLimits.seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace brdma::probe {

struct Limits {
  unsigned seconds = 60;                // of a measurement
  std::size_t line_bytes = 4096;        // of a request or reply
  unsigned steps = 400;                 // requests of a client
  std::uint32_t datagrams = 64;         // of a round: fits the smallest receive buffer
  std::uint32_t rounds = 24;            // a direction
  std::uint32_t datagram_bytes = 1024;  // of a round
  std::uint32_t region_bytes = 1u << 20;
  std::uint32_t write_bytes = 65536;
  std::uint32_t writes_outstanding = 16;
  std::uint64_t stream_bytes = 1u << 30;  // by TCP or WRITEs, a direction
  unsigned stream_ms = 400;
  unsigned reads = 300;
};
inline constexpr Limits kLimits{};
inline constexpr unsigned kProtocol = 1;  // of the lines of JSON

// A step failed: what, and the finding's key (peer) or errno value (local).
struct StepFailed : std::runtime_error {
  StepFailed(const std::string& sentence, int number, std::string finding = "peer_failed")
      : std::runtime_error(sentence), error(number), key(std::move(finding)) {}
  int error;
  std::string key;
};

[[nodiscard]] int run_local();
[[nodiscard]] int run_connect(const std::string& host, const std::string& port);
[[nodiscard]] int run_listen(const std::string& port, bool once);

// The words behind `brdma check-probe`; exit code.
[[nodiscard]] int run(const std::vector<std::string>& words);

}  // namespace brdma::probe
