// brdmad/queries/lease_link.h - sends queries to the process behind a lease, over the lease's connection
// (io/management/management.h lists them). Each query has a number; an answer to none that is open (late, or to a
// previous worker) is dropped. The answer comes from another user: it is checked as it arrives (json_scanner.h), kept
// only while a caller waits, and forwarded as text.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bitmaprdma/context.h"
#include "queries/json_scanner.h"
#include "worker/user_accounts.h"

namespace brdma::daemon {

// A process's answer, or an "error": the members of a JSON object, as text: `"rows":[],"cut":false`. No member has a
// name of kLeaseMembers.
using AnswerMembers = std::string;
[[nodiscard]] AnswerMembers error_members(const ContextError& reason);

class LeaseLink {
 public:
  using Json = nlohmann::ordered_json;
  // The text whole, without waiting. 0, or errno: EAGAIN the process does not read, EPIPE or ECONNRESET it has ended.
  using Write = std::function<int(std::string_view text)>;
  // None: the process ended before it answered.
  using Done = std::function<void(std::optional<AnswerMembers> answer)>;
  static constexpr std::size_t kMembersMax = 32;

  // `held`: the account of the lease's user. `adopted`: from an earlier worker, so the first line may be incomplete.
  LeaseLink(std::uint32_t slot, Write write, BytesFor held, bool adopted = false)
      : slot_(slot), write_(std::move(write)), held_(std::move(held)), line_(adopted ? Line::kIgnored : Line::kBegin) {}

  [[nodiscard]] std::uint32_t slot() const { return slot_; }
  // Calls `done` once, now or later: with the answer, or with an "error" when the process does not read. A caller that
  // stops waiting calls give_up() with the number that ask() returned.
  std::uint64_t ask(Json question, Done done);
  // A message without an answer. False: the process does not read, or has ended.
  [[nodiscard]] bool notify(const Json& news);
  void give_up(std::uint64_t id);

  void take(std::string_view bytes);  // received bytes
  void end();                         // the process is gone

 private:
  enum class Line : std::uint8_t { kBegin, kObject, kComplete, kIgnored };
  struct Span {
    std::size_t begin = 0, end = 0;
  };
  void take_byte(char byte);
  void take_in_object(char byte);
  [[nodiscard]] bool take_lease_members(std::string& text, std::optional<std::uint64_t>& id) const;
  void finish();
  void forget_line();
  void fail(const ContextError& reason);

  std::uint32_t slot_;
  Write write_;
  std::map<std::uint64_t, Done> open_;
  BytesFor held_;
  Line line_;
  JsonScanner scanner_;
  std::string text_;  // of the object so far
  std::size_t member_begin_ = 0;
  std::vector<Span> members_;
};

}  // namespace brdma::daemon
