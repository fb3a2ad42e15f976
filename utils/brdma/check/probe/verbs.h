// probe/verbs.h - libibverbs, loaded at run time, and the few objects that a measurement needs. The functions that the
// header defines inline (ibv_post_send, ibv_poll_cq) are used as they are.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace brdma::probe {

using Clock = std::chrono::steady_clock;

struct Functions {
  decltype(&::ibv_get_device_list) get_device_list;
  decltype(&::ibv_free_device_list) free_device_list;
  decltype(&::ibv_get_device_name) get_device_name;
  decltype(&::ibv_open_device) open_device;
  decltype(&::ibv_close_device) close_device;
  decltype(&::ibv_query_gid) query_gid;
  int (*query_port)(ibv_context*, std::uint8_t, ibv_port_attr*);
  decltype(&::ibv_alloc_pd) alloc_pd;
  decltype(&::ibv_dealloc_pd) dealloc_pd;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, std::size_t, int);
  decltype(&::ibv_dereg_mr) dereg_mr;
  decltype(&::ibv_create_cq) create_cq;
  decltype(&::ibv_destroy_cq) destroy_cq;
  decltype(&::ibv_create_qp) create_qp;
  decltype(&::ibv_modify_qp) modify_qp;
  decltype(&::ibv_destroy_qp) destroy_qp;
  decltype(&::ibv_create_ah) create_ah;
  decltype(&::ibv_destroy_ah) destroy_ah;
};
// Throws StepFailed if libibverbs is not there.
[[nodiscard]] const Functions& functions();

// In libibverbs' order.
[[nodiscard]] std::vector<std::string> list_names();

// An open device with one registered region. Throws StepFailed.
class Device {
 public:
  explicit Device(const std::string& name);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] ibv_pd* pd() const { return pd_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::uint32_t path_mtu() const { return 128u << port_.active_mtu; }  // bytes
  [[nodiscard]] bool is_active() const { return port_.state == IBV_PORT_ACTIVE; }
  // Of an address in the GID table; -1: it is not there.
  [[nodiscard]] int gid_index(const std::array<std::uint8_t, 16>& address) const;
  // The first that is no link-local one, else 0.
  [[nodiscard]] int first_gid_index() const;
  [[nodiscard]] ibv_gid gid(int index) const;
  [[nodiscard]] std::uint8_t* memory() { return memory_.data(); }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(memory_.data()); }
  [[nodiscard]] std::uint32_t lkey() const { return region_->lkey; }
  [[nodiscard]] std::uint32_t rkey() const { return region_->rkey; }

 private:
  std::string name_;
  std::vector<std::uint8_t> memory_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_mr* region_ = nullptr;
  ibv_port_attr port_{};
};

// The other end of a queue pair.
struct Remote {
  std::uint32_t qpn = 0, psn = 0, rkey = 0;
  std::uint64_t address = 0;
  ibv_gid gid{};
};

// RC or UD, with a completion queue of its own.
class QueuePair {
 public:
  QueuePair(Device& device, ibv_qp_type type);
  ~QueuePair();
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  [[nodiscard]] ibv_qp* get() const { return qp_; }
  [[nodiscard]] std::uint32_t number() const { return qp_->qp_num; }
  static constexpr std::uint32_t kFirstPsn = 1000, kQkey = 0x2B7D;
  // RC: ready to send. `path_mtu` in bytes.
  void connect(const Remote& remote, int gid_index, std::uint32_t path_mtu);
  // UD: ready, and the address of later datagrams.
  void reach(const Remote& remote, int gid_index);

  // One WRITE or READ of `bytes` at the beginning of both regions. Throws StepFailed.
  void post(ibv_wr_opcode opcode, std::uint32_t bytes, const Remote& remote);
  // UD: one datagram that begins with `number`.
  void post_datagram(std::uint32_t number, std::uint32_t bytes);
  // UD: room for the longest datagram. At most 64 slots, each in use once.
  void post_receive(std::uint32_t slot);
  // Of a received one, behind its GRH.
  [[nodiscard]] const std::uint8_t* payload(std::uint64_t slot) const;
  // A completion; false: none until then. Throws StepFailed for one with an error (ETIMEDOUT: retries exceeded).
  bool wait(ibv_wc& completion, Clock::time_point until);

 private:
  void to_init();
  Device& device_;
  ibv_qp_type type_;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_ah* ah_ = nullptr;
  std::uint32_t remote_qpn_ = 0;
};

}  // namespace brdma::probe
