// Messages of members with a key to a controller, in any order: a line each; its first character names the member (0-3)
// or another event. The controller continues: no check fails, nothing spins, and its orders are for present members.
//   0{"type":...}   member 0 sends this message (controller-session/messages.h)
//   -2              member 2's session ends
//   t250            250 ms pass
#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/check.h"
#include "controller-session/messages.h"

namespace {

using namespace brdma;
namespace ctl = fabric::controller;

class World {
 public:
  void line(std::string_view text) {
    if (text.size() < 2) return;
    if (text[0] == 't') {
      std::uint32_t ms = 0;
      (void)std::from_chars(text.data() + 1, text.data() + text.size(), ms);
      pass(1_ms * std::int64_t{ms % 100'000});
    } else if (text[0] == '-') {
      leave(member(text[1]));
    } else if (text[0] >= '0' && text[0] <= '3') {
      const session::Parsed parsed = session::parse_message(text.substr(1));
      if (parsed.ok) take(member(text[0]), parsed.message);
    }
    drain();
  }

 private:
  struct Member {
    std::string id;
    bool is_switch = false;
  };

  Member& member(char digit) { return members_[static_cast<unsigned char>(digit) % members_.size()]; }
  void leave(Member& one) {
    if (one.id.empty()) return;
    one.is_switch ? controller_.handle_switch_gone(one.id, now_) : controller_.handle_host_gone(one.id, now_);
    one = {};
  }
  // As the server: one greeting, then the messages of its role; a member that reconnects has lost its old session.
  void take(Member& one, const session::Message& message) {
    if (!one.id.empty()) {
      one.is_switch ? of_switch(one, message) : of_host(one, message);
    } else if (const auto* hello = std::get_if<session::SwitchGreeting>(&message)) {
      greet(one, hello->hello.id, true, [&] { return controller_.handle_switch(hello->hello, now_); });
    } else if (const auto* host = std::get_if<session::HostGreeting>(&message)) {
      greet(one, host->hello.id, false, [&] { return controller_.handle_host(host->hello, now_); });
    }
  }
  template <class Handle>
  void greet(Member& one, const std::string& id, bool is_switch, Handle handle) {
    for (Member& other : members_) {
      if (other.id == id && other.is_switch == is_switch) leave(other);
    }
    if (handle()) one = {id, is_switch};
  }
  void of_switch(const Member& one, const session::Message& message) {
    if (const auto* reports = std::get_if<session::LinkReports>(&message)) {
      controller_.handle_links(one.id, reports->ports, now_);
    } else if (const auto* feedback = std::get_if<session::ActiveFeedback>(&message)) {
      controller_.handle_active(one.id, feedback->port, feedback->flows, now_);
    } else if (const auto* done = std::get_if<session::RoutesInstalled>(&message)) {
      controller_.handle_acknowledgement(one.id, done->epoch, done->installed, now_);
    }
  }
  void of_host(const Member& one, const session::Message& message) {
    if (const auto* said = std::get_if<session::PassiveFeedback>(&message)) {
      controller_.handle_passive(one.id, said->flow, said->hops, now_);
    }
  }
  void pass(Duration time) {
    const Instant end = now_ + time;
    for (auto due = controller_.next_timeout(); due && *due <= end; due = controller_.next_timeout()) {
      now_ = std::max(now_, *due);
      controller_.handle_timeout(now_);
      drain();
      BRDMA_CHECK(++timeouts_ < 100'000);  // nothing spins
    }
    now_ = end;
  }
  void drain() {
    while (const auto order = controller_.poll()) {
      if (const auto* lower = std::get_if<ctl::LowerDestination>(&*order)) {
        BRDMA_CHECK(controller_.hosts().contains(lower->host_id));
      }
      const auto* cut = std::get_if<ctl::CutOff>(&*order);
      if (cut == nullptr) continue;
      for (Member& one : members_) {
        if (one.is_switch && one.id == cut->switch_id) leave(one);
      }
    }
  }

  std::array<Member, 4> members_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  ctl::Controller controller_{{}, {}, now_};
  std::uint64_t timeouts_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text{reinterpret_cast<const char*>(data), size};
  World world;
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    world.line(text.substr(from, end - from));
    from = end + 1;
  }
  return 0;
}
