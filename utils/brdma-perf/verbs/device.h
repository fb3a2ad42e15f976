// verbs/device.h - the RDMA device of a run: found by the address of the TCP connection, or as the user says.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>
#include <string>

namespace brdma::perf {

struct DeviceChoice {
  std::string name;  // empty: the first that has the address
  int port = 1;
  int gid_index = -1;  // -1: the GID that is the address, RoCE v2 before v1, else the first
  bool ours = false;   // devices of libbitmaprdma alone
};

// A port's end of a connection.
struct Place {
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;
  ibv_gid gid{};
  std::uint16_t lid = 0;
  bool ethernet = true;   // RoCE: peers are known by their GID; InfiniBand: by their LID
  std::uint32_t mtu = 0;  // enum ibv_mtu
};

struct CloseDevice {
  bool owned = true;
  void operator()(ibv_context* context) const {
    if (owned) ibv_close_device(context);
  }
};

class Device {
 public:
  // `address`: of this host, as text. Throws RunError, with what there is and what to do.
  [[nodiscard]] static Device open(const DeviceChoice& choice, const std::string& address);
  // A device that librdmacm has opened; it stays open.
  [[nodiscard]] static Device borrow(ibv_context* context, int port, const std::string& address);

  [[nodiscard]] ibv_context* context() const { return context_.get(); }
  [[nodiscard]] const Place& place() const { return place_; }
  [[nodiscard]] std::string name() const { return ibv_get_device_name(context_->device); }
  [[nodiscard]] const ibv_device_attr& limits() const { return limits_; }

 private:
  Device(ibv_context* context, bool owned) : context_(context, CloseDevice{owned}) {}
  std::unique_ptr<ibv_context, CloseDevice> context_;
  Place place_;
  ibv_device_attr limits_{};
};

[[nodiscard]] std::string gid_text(const ibv_gid& gid);
// Throws RunError.
[[nodiscard]] ibv_gid gid_from_text(const std::string& text);

}  // namespace brdma::perf
