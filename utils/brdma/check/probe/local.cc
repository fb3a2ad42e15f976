// The devices of this host: each active one of ours is opened, and one queue pair writes to another through it.

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "check/probe/control.h"
#include "check/probe/own_state.h"
#include "check/probe/probe.h"
#include "check/probe/verbs.h"

namespace brdma::probe {
namespace {

constexpr std::size_t kDevicesMax = 8;
constexpr std::uint32_t kBytes = 1024;

Remote end_of(const Device& device, const QueuePair& pair, int gid_index) {
  return {pair.number(), QueuePair::kFirstPsn, device.rkey(), device.address() + kBytes, device.gid(gid_index)};
}

void write_to_itself(Device& device, QueuePair& one, QueuePair& other) {
  const int index = device.first_gid_index();
  const Remote to_one = end_of(device, one, index), to_other = end_of(device, other, index);
  one.connect(to_other, index, device.path_mtu());
  other.connect(to_one, index, device.path_mtu());
  std::memset(device.memory(), 0x5A, kBytes);
  one.post(IBV_WR_RDMA_WRITE, kBytes, to_other);
  ibv_wc completion{};
  if (!one.wait(completion, Clock::now() + std::chrono::seconds{5})) throw StepFailed("a WRITE to itself", ETIMEDOUT);
  if (std::memcmp(device.memory(), device.memory() + kBytes, kBytes) != 0) {
    throw StepFailed("a WRITE to itself was acknowledged and is not in memory", EIO);
  }
}

void describe(Json& result, const Device& device, const QueuePair& pair) {
  const OwnSocket socket = own_socket();
  result["receive_buffer"] = socket.receive_buffer;
  result["receive_offload"] = socket.merges;
  const Json datapath = datapath_of(device.name());
  result["receive"] = text_of(datapath, "receive");
  result["receive_reason"] = text_of(datapath, "reason");
  result["transmit"] = text_of(datapath, "transmit");
  result["transmit_reason"] = text_of(datapath, "transmit_reason");
  result["mode"] = text_of(queue_pair_row(device.name(), pair.number()), "mode");
}

// Null: not active, so nothing is expected of it.
Json try_device(const std::string& name) {
  Json result{{"device", name}, {"opened", false}, {"queue_pair", false}, {"transferred", false}};
  try {
    Device device(name);
    if (!device.is_active()) return nullptr;
    result["opened"] = true;
    QueuePair one(device, IBV_QPT_RC), other(device, IBV_QPT_RC);
    result["queue_pair"] = true;
    describe(result, device, one);
    write_to_itself(device, one, other);
    result["transferred"] = true;
    describe(result, device, one);
  } catch (const StepFailed& failed) {
    result["step"] = failed.what();
    result["error"] = static_cast<unsigned>(failed.error);
  }
  return result;
}

}  // namespace

int run_local() {
  Json listed = Json::array(), opened = Json::array();
  for (const std::string& name : list_names()) {
    listed.push_back(name);
    if (!name.starts_with("brdma_") || opened.size() == kDevicesMax) continue;
    Json result = try_device(name);
    if (!result.is_null()) opened.push_back(std::move(result));
  }
  std::printf("%s", line_of({{"listed", listed}, {"opened", opened}}).c_str());
  return 0;
}

}  // namespace brdma::probe
