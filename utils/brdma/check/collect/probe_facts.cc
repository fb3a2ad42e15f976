// The probe and its output as facts. It holds text of a peer: every member is checked.

#include <nlohmann/json.hpp>

#include "check/collect/child.h"
#include "check/collect/collect.h"
#include "control/json_text.h"
#include "programs.h"

namespace brdma::check {
namespace {

using Answer = nlohmann::ordered_json;

constexpr std::size_t kTextMax = 512;

const Answer* find_in(const Answer& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string text(const Answer& object, const char* key) {
  const Answer* const found = find_in(object, key);
  return found != nullptr && found->is_string() ? found->get_ref<const std::string&>().substr(0, kTextMax) : "";
}

std::uint64_t number(const Answer& object, const char* key) {
  const Answer* const found = find_in(object, key);
  return found != nullptr && found->is_number_unsigned() ? found->get<std::uint64_t>() : 0;
}

std::uint32_t small(const Answer& object, const char* key) {
  const std::uint64_t value = number(object, key);
  return value <= UINT32_MAX ? static_cast<std::uint32_t>(value) : 0;
}

double real(const Answer& object, const char* key) {
  const Answer* const found = find_in(object, key);
  return found != nullptr && found->is_number() ? found->get<double>() : 0;
}

bool flag(const Answer& object, const char* key) {
  const Answer* const found = find_in(object, key);
  return found != nullptr && found->is_boolean() && found->get<bool>();
}

Opened opened_of(const Answer& object) {
  Opened one;
  one.device = text(object, "device");
  one.opened = flag(object, "opened");
  one.queue_pair = flag(object, "queue_pair");
  one.transferred = flag(object, "transferred");
  one.error = static_cast<int>(number(object, "error") & 0xFFFF);
  one.step = text(object, "step");
  one.receive_buffer = number(object, "receive_buffer");
  one.receive_offload = flag(object, "receive_offload");
  one.receive = text(object, "receive");
  one.receive_reason = text(object, "receive_reason");
  one.transmit = text(object, "transmit");
  one.transmit_reason = text(object, "transmit_reason");
  one.mode = text(object, "mode");
  return one;
}

Direction direction_of(const Answer* object) {
  Direction way;
  if (object == nullptr) return way;
  way.sent = small(*object, "sent");
  way.received = small(*object, "received");
  way.reordered = small(*object, "reordered");
  way.duplicated = small(*object, "duplicated");
  way.path_mtu = small(*object, "path_mtu");
  way.mbps = real(*object, "mbps");
  way.tcp_mbps = real(*object, "tcp_mbps");
  return way;
}

Peer peer_of(const Answer& object, const std::string& address) {
  Peer peer;
  peer.address = address;
  peer.error = text(object, "error");
  peer.error_key = text(object, "error_key");
  peer.version = text(object, "version");
  peer.own_device = text(object, "own_device");
  peer.device = text(object, "device");
  peer.own_mtu = small(object, "own_mtu");
  peer.mtu = small(object, "mtu");
  peer.to_peer = direction_of(find_in(object, "to_peer"));
  peer.from_peer = direction_of(find_in(object, "from_peer"));
  peer.mode = text(object, "mode");
  peer.data = text(object, "data");
  peer.receive = text(object, "receive");
  peer.transmit = text(object, "transmit");
  peer.read_us = real(object, "read_us");
  peer.tcp_us = real(object, "tcp_us");
  return peer;
}

constexpr unsigned kLocalSeconds = 30, kPeerSeconds = 90;

ChildRun run_probe(std::vector<std::string> arguments, unsigned seconds) {
  arguments.insert(arguments.begin(), {own_program(), "check-probe"});
  return run_child(
      [&arguments] {
        std::vector<char*> argv;
        for (std::string& word : arguments) argv.push_back(word.data());
        argv.push_back(nullptr);
        return exec_with_devices(find_library(), argv.data());
      },
      seconds);
}

}  // namespace

void collect_probe(Facts& facts) {
  const ChildRun run = run_probe({"local"}, kLocalSeconds);
  facts.library.probe_error = run.error;
  facts.probe.in_time = run.in_time;
  facts.probe.exit_code = run.exit_code;
  facts.probe.messages = run.messages;
  const Answer answer = control::parse_json(run.output);
  facts.probe.ran = answer.is_object();
  if (const Answer* const listed = find_in(answer, "listed"); listed != nullptr && listed->is_array()) {
    for (const Answer& name : *listed) {
      if (name.is_string()) facts.probe.listed.push_back(name.get<std::string>());
    }
  }
  if (const Answer* const opened = find_in(answer, "opened"); opened != nullptr && opened->is_array()) {
    for (const Answer& one : *opened) facts.probe.opened.push_back(opened_of(one));
  }
}

void collect_peer(Facts& facts, const std::string& address, unsigned short port) {
  const ChildRun run = run_probe({"connect", address, std::to_string(port)}, kPeerSeconds);
  const Answer answer = control::parse_json(run.output);
  facts.peer = peer_of(answer, address);
  if (answer.is_object()) return;
  facts.peer->error_key = "peer_failed";
  facts.peer->error = !run.error.empty()     ? run.error
                      : !run.in_time         ? "the measurement did not end in time"
                      : run.messages.empty() ? "the probe ended without a result"
                                             : run.messages.front();
}

}  // namespace brdma::check
