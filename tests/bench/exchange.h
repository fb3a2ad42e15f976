// tests/bench/exchange.h - shared by the benchmark's own verbs programs: a device, a TCP connection over which two
// programs exchange their queue pairs, and RC queue pairs in RTS. Programs of a pair have the same arguments; the one
// with an additional address is the client. Any error ends the program with a message.
#pragma once
#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bench {

constexpr std::uint16_t kPort = 18600;  // TCP, where no other is asked for

// Ends the program unless `ok`.
void need(bool ok, const char* what);

// CPU time of this process, all threads, and a steady clock: nanoseconds.
[[nodiscard]] std::uint64_t cpu_ns();
[[nodiscard]] std::uint64_t now_ns();
// Resident memory, bytes.
[[nodiscard]] long resident_bytes();

// One end of the TCP connection. Bytes in the machine's order: both ends are one machine's.
class Peer {
 public:
  [[nodiscard]] static Peer serve(std::uint16_t port = kPort);
  [[nodiscard]] static Peer call(const std::string& address, std::uint16_t port = kPort);
  Peer(Peer&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  Peer& operator=(Peer&&) = delete;
  ~Peer();

  void send(const void* data, std::size_t size) const;
  void receive(void* data, std::size_t size) const;
  [[nodiscard]] std::string own_address() const;  // as text
  // Both have come so far.
  void meet() const;
  // The other end has sent something, or is gone: costs a system call.
  [[nodiscard]] bool said_something() const;
  [[nodiscard]] int descriptor() const { return fd_; }

 private:
  explicit Peer(int fd) : fd_(fd) {}
  int fd_;
};

// The first device, its first port, an IPv4 GID.
struct Device {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_gid gid{};
  int gid_index = 0;
  ibv_mtu mtu = IBV_MTU_1024;
};
[[nodiscard]] Device open_device();

// Facts about one end's queue pair that the other needs.
struct Address {
  std::uint32_t qp_number = 0;
  ibv_gid gid{};
};

// Work requests, the maximum in flight at once.
[[nodiscard]] ibv_qp* create_queue_pair(const Device& device, ibv_cq* cq, std::uint32_t depth,
                                        std::uint32_t receives = 1);
void connect_queue_pair(const Device& device, ibv_qp* qp, const Address& peer);

// The other end's memory.
struct Window {
  std::uint64_t address = 0;
  std::uint32_t rkey = 0;
};

// Both ends call it with as many queue pairs: sends ours to the peer, connects each to its counterpart, returns when
// both are done.
void connect_all(const Device& device, const Peer& peer, const std::vector<ibv_qp*>& queue_pairs);
// Memory that both ends may read and write.
[[nodiscard]] ibv_mr* register_memory(const Device& device, std::vector<std::uint8_t>& memory);
// Exchanges the windows of both ends; returns the peer's.
[[nodiscard]] Window exchange_windows(const Peer& peer, const ibv_mr* mr);

// Posts and polls for `cq`'s one or more queue pairs; a failed request ends the program.
struct Request {
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  std::uint32_t bytes = 0;
  std::uint64_t local = 0;
  std::uint32_t lkey = 0;
  Window to{};
  bool signaled = true;
};
void post(ibv_qp* qp, const Request& request);
// Number of completions polled.
[[nodiscard]] std::size_t poll(ibv_cq* cq);

}  // namespace bench
