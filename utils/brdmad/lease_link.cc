#include "lease_link.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "io/lease_protocol.h"

namespace brdma::daemon {
namespace {

// Unlike those of a worker before us, whose answers may still come.
std::uint64_t next_id() {
  static std::uint64_t last =
      static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count() & 0xFFFF'FFFF'FFFF);
  return ++last;
}

}  // namespace

std::uint64_t LeaseLink::ask(Json question, Done done) {
  const std::uint64_t id = next_id();
  question["id"] = id;
  const std::string text = "\n" + question.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
  if (write_(text)) {
    open_[id] = std::move(done);
  } else {
    done({{"error", {{"errno", EAGAIN}, {"message", "the program does not read what brdmad asks"}}}});
  }
  return id;
}

bool LeaseLink::tell(const Json& news) { return write_("\n" + news.dump() + "\n"); }

void LeaseLink::give_up(std::uint64_t id) { open_.erase(id); }

void LeaseLink::take_lines(std::string& input) {
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = input.find('\n', begin)) != std::string::npos; begin = end + 1) {
    take_answer(std::string_view(input).substr(begin, end - begin));
  }
  input.erase(0, begin);
  if (input.size() > io::kManagementAnswerMax) input.clear();  // no answer is so long
}

void LeaseLink::take_answer(std::string_view line) {
  if (line.empty() || line.front() != '{') return;
  Json answer = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!answer.is_object()) return;
  const auto id = answer.find("id");
  if (id == answer.end() || !id->is_number_unsigned()) return;
  const auto found = open_.find(id->get<std::uint64_t>());
  if (found == open_.end()) return;
  const Done done = std::move(found->second);
  open_.erase(found);
  answer.erase("id");
  done(std::move(answer));
}

void LeaseLink::end() {
  const auto open = std::exchange(open_, {});
  for (const auto& [id, done] : open) {
    done({{"error", {{"errno", ESRCH}, {"message", "the program has just ended"}}}});
  }
}

}  // namespace brdma::daemon
