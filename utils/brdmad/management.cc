#include "management.h"

#include <unistd.h>

#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "control/definitions.h"
#include "control/report.h"
#include "io/daemon_connection.h"
#include "lease_link.h"
#include "queries.h"
#include "session.h"

namespace brdma::daemon {
namespace {

using Json = nlohmann::ordered_json;
using Done = std::function<void(std::string)>;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

// One question to several processes. Lives until the last answer, or until time is up.
class Inquiry : public std::enable_shared_from_this<Inquiry> {
 public:
  Inquiry(asio::io_context& context, Json frame, Done done)
      : timer_(context), frame_(std::move(frame)), done_(std::move(done)) {
    frame_["answers"] = Json::array();
  }

  // Before start(): whom to ask, and what is known without asking.
  void add(std::shared_ptr<LeaseLink> link, Json lease) { asked_.push_back({std::move(link), std::move(lease), 0}); }
  void add_answer(Json answer) { frame_["answers"].push_back(std::move(answer)); }

  void start(const Json& question) {
    left_ = asked_.size() + 1;  // and this function, so that answers at once do not end it too soon
    timer_.expires_after(kAnswerMax);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->time_is_up();
    });
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      asked_[i].id = asked_[i].link->ask(question, [self = shared_from_this(), i](const Json& answer) {
        self->asked_[i].lease.update(answer);
        self->asked_[i].answered = true;
        self->one_less();
      });
    }
    one_less();
  }

 private:
  struct Asked {
    std::shared_ptr<LeaseLink> link;
    Json lease;
    std::uint64_t id = 0;
    bool answered = false;
  };

  void one_less() {
    if (--left_ == 0) finish();
  }
  void time_is_up() {
    if (done_ == nullptr) return;
    for (Asked& asked : asked_) {
      if (asked.answered) continue;
      asked.link->give_up(asked.id);
      asked.lease["error"] = {{"errno", ETIMEDOUT},
                              {"message", "the program does not answer: it is stopped, or its library is older"}};
    }
    finish();
  }
  void finish() {
    timer_.cancel();
    for (Asked& asked : asked_) frame_["answers"].push_back(std::move(asked.lease));
    asked_.clear();
    std::exchange(done_, nullptr)(line_of(frame_));
  }

  asio::steady_timer timer_;
  Json frame_;
  Done done_;
  std::vector<Asked> asked_;
  std::size_t left_ = 0;
};

struct Question {
  std::string query;
  std::string device;  // empty: all
  std::optional<std::uint32_t> qp;
  Json settings;
  std::string what;
  std::string destination;

  [[nodiscard]] bool changes() const { return query == "recovery_set" || query.starts_with("managed_"); }
};

std::string text_of(const Json& request, const char* key) {
  const auto found = request.find(key);
  return found != request.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

// What the processes are asked. Null: no question of this kind.
Json question_of(const Question& question) {
  Json asked;
  if (question.query == "recovery") asked["do"] = "recovery";
  if (question.query == "recovery_set") asked = {{"do", "set"}, {"settings", question.settings}};
  if (question.query == "queue_pair_statistics") asked["do"] = "statistics";
  if (question.query == "resource" && question.what == "qp") asked["do"] = "queue_pairs";
  if (question.query == "resource" && question.what == "objects") asked["do"] = "objects";
  if (question.query == "resource" && question.what == "cq") asked["do"] = "completion_queues";
  if (question.query == "resource" && question.what == "mr") asked["do"] = "memory_regions";
  if (question.query == "managed") asked["do"] = "managed";
  if (question.query == "managed_add") asked = {{"do", "manage"}, {"destination", question.destination}};
  if (question.query == "managed_remove") asked = {{"do", "release"}, {"destination", question.destination}};
  if (!asked.is_null() && question.qp) asked["qp"] = *question.qp;
  return asked;
}

bool may_change(std::uint32_t asker, std::uint32_t owner) { return asker == owner || asker == 0; }

bool concerns(const Question& question, const SharedState& state, std::uint32_t slot) {
  const SlotRecord& record = state.slots[slot];
  if (record.state != SlotState::kLeased) return false;
  if (!question.device.empty() && io::get_text(record.device) != question.device) return false;
  return !question.qp || lessee_of(state, *question.qp & (io::kSlotCount - 1)) == slot;
}

// `text`: lines `key=value`; those of `changes` take the place of what was there.
std::string with_changes(std::string_view text, const Json& changes) {
  std::map<std::string, std::string> settings;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals != line.npos) settings[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  for (const auto& [key, value] : changes.items()) {
    const control::Definition* const definition = control::find_definition(key);
    if (definition == nullptr) continue;
    settings[std::string(definition->key)] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  std::string result;
  for (const auto& [key, value] : settings) result.append(key).append(1, '=').append(value).append(1, '\n');
  return result;
}

Json settings_json(std::string_view text) {
  Json object = Json::object();
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t equals = line.find('=');
    if (equals == line.npos) continue;
    const std::string value{line.substr(equals + 1)};
    const Json parsed = Json::parse(value, nullptr, /*allow_exceptions=*/false);
    object[std::string(line.substr(0, equals))] = parsed.is_number() || parsed.is_boolean() ? parsed : Json(value);
  }
  return object;
}

Json devices_json(const SharedState& state, const std::string& device) {
  Json list = Json::array();
  for (std::size_t i = 0; i < state.settings_count; ++i) {
    const std::string name{io::get_text(state.settings[i].device)};
    if (!device.empty() && name != device) continue;
    list.push_back({{"device", name}, {"settings", settings_json(io::get_text(state.settings[i].text))}});
  }
  return list;
}

// Whether the change may be made at all; then it is also kept for programs to come. An error, or none.
std::optional<ContextError> keep_change(SessionHost& host, std::uint32_t asker, const Question& question) {
  if (const std::string wrong = control::check_changes(question.settings, question.qp.has_value()); !wrong.empty()) {
    return ContextError{EINVAL, wrong};
  }
  if (question.qp) return std::nullopt;
  if (!may_change(asker, ::geteuid())) {
    return ContextError{EACCES, "only root and " + io::user_text(::geteuid()) +
                                    " may set what programs to come get: name a queue pair of your own (qp N)"};
  }
  if (question.device.empty()) return ContextError{EINVAL, "name a device or a queue pair"};
  const std::string text = with_changes(device_settings(host.book().state(), question.device), question.settings);
  if (!host.book().set_settings(question.device, text)) return ContextError{ENOSPC, "too many settings"};
  return std::nullopt;
}

void ask_processes(SessionHost& host, std::uint32_t asker, const Question& question, Done done) {
  const SharedState& state = host.book().state();
  Json frame = Json::object();
  if (question.query.starts_with("recovery")) frame["devices"] = devices_json(state, question.device);
  auto inquiry = std::make_shared<Inquiry>(host.context(), std::move(frame), std::move(done));
  for (std::uint32_t slot = 0; slot < state.slots_end; ++slot) {
    const SlotRecord& record = state.slots[slot];
    if (!concerns(question, state, slot)) continue;
    Json lease = lease_json(slot, record);
    if (question.changes() && !may_change(asker, record.uid)) {
      lease["error"] = {
          {"errno", EACCES},
          {"message", "only root and " + io::user_text(record.uid) + " may change this program's settings"}};
      inquiry->add_answer(std::move(lease));
    } else if (auto link = host.link(slot)) {
      inquiry->add(std::move(link), std::move(lease));
    }
  }
  inquiry->start(question_of(question));
}

}  // namespace

bool begin_management(SessionHost& host, std::uint32_t asker_uid, std::string_view line, Done done) {
  const Json request = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!request.is_object()) return false;
  Question question{text_of(request, "query"), text_of(request, "device"),     std::nullopt, {},
                    text_of(request, "what"),  text_of(request, "destination")};
  if (const auto qp = request.find("qp"); qp != request.end() && qp->is_number_unsigned()) {
    question.qp = qp->get<std::uint32_t>();
  }
  if (const auto settings = request.find("settings"); settings != request.end()) question.settings = *settings;
  const bool of_watch = question.query == "events" || question.query.starts_with("alarm");
  if (question_of(question).is_null() && !of_watch) return false;
  const auto refuse = [&done](const ContextError& reason) { done(line_of(error_json(reason))); };
  if (!may_use(host.options(), asker_uid) && asker_uid != 0) {
    refuse(not_for_you());
    return true;
  }
  if (of_watch) return host.watch().answer(request, may_change(asker_uid, ::geteuid()), std::move(done));
  if (question.query == "recovery_set") {
    if (const auto wrong = keep_change(host, asker_uid, question)) {
      refuse(*wrong);
      return true;
    }
  }
  ask_processes(host, asker_uid, question, std::move(done));
  return true;
}

}  // namespace brdma::daemon
