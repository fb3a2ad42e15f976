#include "queries/lease_link.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <optional>
#include <utility>

#include "io/daemon/lease_protocol.h"

namespace brdma::daemon {
namespace {

// The members that lease_json() writes about a lease, and the question's number: the process must not set them.
constexpr std::array<std::string_view, 8> kLeaseMembers{"id",   "pid", "comm",     "device",
                                                        "slot", "uid", "lease_id", "since_unix_ns"};

// Differs from the numbers of a previous worker, whose answers may still come.
std::uint64_t next_id() {
  static std::uint64_t last =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count() & 0xFFFF'FFFF'FFFF);
  return ++last;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

struct Member {
  std::string_view name, value;
};
// The member's name in well-formed text. None: the name has escapes, so it could stand for one of the lease's.
std::optional<Member> member_of(std::string_view text) {
  text = trimmed(text);
  const std::size_t quote = text.find('"', 1);
  const std::string_view name = text.substr(1, quote - 1);
  if (name.find('\\') != name.npos) return std::nullopt;
  text.remove_prefix(quote + 1);
  return Member{name, trimmed(trimmed(text).substr(1))};
}

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The member [begin, end) of an object's text without its last brace, and one comma: the one behind it, or for the last
// member the one before it, if it is not the first too.
void erase_member(std::string& text, std::size_t begin, std::size_t end, bool first) {
  if (end < text.size()) {
    ++end;
  } else if (!first) {
    --begin;
  }
  text.erase(begin, end - begin);
}

}  // namespace

AnswerMembers error_members(const ContextError& reason) {
  const nlohmann::ordered_json error = {{"errno", reason.error}, {"message", reason.message}};
  return R"("error":)" + error.dump(-1, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

std::uint64_t LeaseLink::ask(Json question, Done done) {
  const std::uint64_t id = next_id();
  question["id"] = id;
  const std::string text = "\n" + question.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  const int error = write_(text);
  if (error == 0) {
    open_[id] = std::move(done);
  } else if (error == EPIPE || error == ECONNRESET) {
    done(std::nullopt);
  } else {
    done(error_members({error, "the program does not read what brdmad asks"}));
  }
  return id;
}

bool LeaseLink::notify(const Json& news) { return write_("\n" + news.dump() + "\n") == 0; }

void LeaseLink::give_up(std::uint64_t id) {
  open_.erase(id);
  if (open_.empty() && line_ != Line::kBegin) forget_line();
}

void LeaseLink::take(std::string_view bytes) {
  for (const char byte : bytes) take_byte(byte);
}

void LeaseLink::take_byte(char byte) {
  switch (line_) {
    case Line::kBegin:
      if (byte == '\n') return;
      if (byte != '{' || open_.empty()) return forget_line();
      scanner_.reset();
      members_.clear();
      line_ = Line::kObject;
      return take_in_object(byte);
    case Line::kObject:
      return take_in_object(byte);
    case Line::kComplete:
      if (byte == '\n') return finish();
      return byte == ' ' ? void() : fail({EPROTO, "its answer is malformed"});
    case Line::kIgnored:
      if (byte == '\n') line_ = Line::kBegin;
  }
}

void LeaseLink::take_in_object(char byte) {
  const bool of_outermost = scanner_.depth() == 1 && !scanner_.in_text();
  const auto result = scanner_.take(byte);
  if (result == JsonScanner::Result::kBad) {
    fail({EPROTO, "its answer is malformed"});
    if (byte == '\n') line_ = Line::kBegin;
    return;
  }
  if (text_.size() == io::kManagementAnswerMax) return fail({EMSGSIZE, "its answer is too long"});
  if (text_.size() == text_.capacity()) {
    if (!held_.set(2 * text_.capacity())) return fail({ENOBUFS, "its answer is longer than its user may have"});
    text_.reserve(2 * text_.capacity());
  }
  text_.push_back(byte);
  if (text_.size() == 1) member_begin_ = 1;
  if (!of_outermost || (byte != ',' && byte != '}')) return;
  if (members_.size() == kMembersMax) return fail({EPROTO, "its answer has too many members"});
  members_.push_back({member_begin_, text_.size() - 1});
  member_begin_ = text_.size();
  if (result == JsonScanner::Result::kComplete) line_ = Line::kComplete;
}

// Takes the lease's members out of the text, the last one first, and the question's number with them. False: a name has
// escapes.
bool LeaseLink::take_lease_members(std::string& text, std::optional<std::uint64_t>& id) const {
  for (std::size_t i = members_.size(); i-- > 0;) {
    const Span& span = members_[i];
    const std::string_view member_text = std::string_view(text).substr(span.begin, span.end - span.begin);
    if (trimmed(member_text).empty()) continue;  // of {}
    const auto member = member_of(member_text);
    if (!member) return false;
    if (std::ranges::find(kLeaseMembers, member->name) == kLeaseMembers.end()) continue;
    if (member->name == "id") id = number_of(member->value);
    erase_member(text, span.begin, span.end, i == 0);
  }
  return true;
}

void LeaseLink::finish() {
  std::string text = std::exchange(text_, {});
  text.pop_back();
  std::optional<std::uint64_t> id;
  const bool plain = take_lease_members(text, id);
  forget_line();
  line_ = Line::kBegin;
  if (!plain) return fail({EPROTO, "its answer is malformed"});
  const auto found = id ? open_.find(*id) : open_.end();
  if (found == open_.end()) return;
  const Done done = std::move(found->second);
  open_.erase(found);
  text.erase(0, 1);
  done(std::move(text));
}

void LeaseLink::forget_line() {
  line_ = Line::kIgnored;
  std::string{}.swap(text_);
  static_cast<void>(held_.set(0));
}

// Each answer is of one program, so all callers that wait for this one get the error.
void LeaseLink::fail(const ContextError& reason) {
  const bool at_end = line_ == Line::kBegin;
  forget_line();
  if (at_end) line_ = Line::kBegin;
  const auto open = std::exchange(open_, {});
  for (const auto& [id, done] : open) done(error_members(reason));
}

void LeaseLink::end() {
  const auto open = std::exchange(open_, {});
  for (const auto& [id, done] : open) done(std::nullopt);
}

}  // namespace brdma::daemon
