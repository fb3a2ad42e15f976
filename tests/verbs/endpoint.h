// endpoint.h - one RC queue pair with one registered arena, by plain verbs calls.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "control_channel.h"

struct Options {
  std::string address;  // empty: server
  std::string device;   // empty: the first
  std::uint16_t port = 18600;
  std::uint64_t seed = 1;
  unsigned rounds = 24;
  unsigned size_max = 256 * 1024;
  bool events = false;  // sleep on a completion channel instead of polling
  unsigned timeout_s = 90;
};

class Endpoint {
 public:
  static constexpr std::size_t kArenaBytes = 32u << 20;
  static constexpr unsigned kDepth = 64;

  Endpoint(const Options& options, ControlChannel& control);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] std::uint8_t* arena() { return arena_; }
  [[nodiscard]] std::uint64_t remote(std::size_t offset) const { return remote_address_ + offset; }
  [[nodiscard]] std::uint32_t rkey() const { return remote_key_; }
  [[nodiscard]] std::uint32_t lkey() const { return region_->lkey; }
  [[nodiscard]] unsigned inline_max() const { return inline_max_; }

  void post_send(ibv_send_wr& wr);
  void post_receive(std::uint64_t wr_id, std::vector<ibv_sge>& sges);
  // Next completion of the send or receive queue; throws on an error status.
  ibv_wc wait_send() { return wait(send_cq_); }
  ibv_wc wait_receive() { return wait(receive_cq_); }

 private:
  ibv_wc wait(ibv_cq* cq);
  void connect(ControlChannel& control);
  bool events_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::uint8_t* arena_ = nullptr;
  std::uint64_t remote_address_ = 0;
  std::uint32_t remote_key_ = 0;
  unsigned inline_max_ = 0;
};
