// rdma_netlink/commands.h - private: the commands behind answer.h. Each checks its attributes in the kernel's order.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rdma_netlink/answer.h"
#include "rdma_netlink/message.h"
#include "rdma_netlink/request.h"

namespace brdma::provider::nldev {

struct Part {
  Operation operation;
  Writer payload;
};
struct Reply {
  int error = 0;       // errno value
  std::string reason;  // of an error, for people; may be empty
  std::vector<Part> parts;
  bool is_dump = false;
};
[[nodiscard]] inline Reply refusal(int error, std::string reason = {}) { return {error, std::move(reason), {}, false}; }

struct Call {
  const Attributes& attributes;
  const Asker& asker;
  Source& source;
};

struct Command {
  Operation operation;
  bool dump;
  bool needs_admin;
  Reply (*run)(const Call& call);
};

// Null: the kernel has no such command, or not in this form.
[[nodiscard]] const Command* find_command(std::uint16_t operation, bool dump);

// resource_commands.cc: tables of objects, and one of them.
[[nodiscard]] Reply dump_resources(const Call& call, Operation operation);
[[nodiscard]] Reply get_resource(const Call& call, Operation operation);
[[nodiscard]] Reply get_summary(const Call& call);

// The device that a request names by DEV_INDEX.
struct Chosen {
  int error = 0;  // EINVAL: none is named, or there is no such one
  std::uint32_t index = 0;
  DeviceInfo info;
};
[[nodiscard]] Chosen choose_device(const Call& call);
void put_handle(Writer& to, std::uint32_t index, const std::string& name);

}  // namespace brdma::provider::nldev
