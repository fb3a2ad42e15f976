#include "queries/management.h"

#include <unistd.h>

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "control/definitions.h"
#include "control/json_text.h"
#include "control/report.h"
#include "io/daemon/daemon_connection.h"
#include "queries/lease_link.h"
#include "queries/queries.h"
#include "worker/session.h"
#include "worker/user_accounts.h"

namespace brdma::daemon {
namespace {

using Json = nlohmann::ordered_json;
using Done = std::function<void(std::string)>;

std::string line_of(const Json& json) {
  return json.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
}

// `object` with one more member: a list of objects that are text already.
std::string with_answers(const Json& object, std::vector<std::string>& answers) {
  std::string line = object.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  line.pop_back();
  std::size_t bytes = line.size() + 32;
  for (const std::string& answer : answers) bytes += answer.size() + 1;
  line.reserve(bytes);
  line.append(object.empty() ? "" : ",").append(R"("answers":[)");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    line.append(i == 0 ? "" : ",").append(answers[i]);
    std::string{}.swap(answers[i]);
  }
  return line.append("]}\n");
}

// One question to several processes. Lives until the last answer or the timeout. All answers together have at most
// kBytesMax, those of one user with a quota at most kBytesOfUser; further answers are left out and their leases named.
class Inquiry : public std::enable_shared_from_this<Inquiry> {
 public:
  Inquiry(asio::io_context& context, UserAccounts& accounts, std::uint32_t asker, Json frame, Done done)
      : timer_(context),
        accounts_(accounts),
        asker_(asker),
        held_(accounts, asker),
        frame_(std::move(frame)),
        done_(std::move(done)) {}
  ~Inquiry() { accounts_.end_question(asker_); }
  Inquiry(const Inquiry&) = delete;
  Inquiry& operator=(const Inquiry&) = delete;

  // Before start(): the process to ask, and the facts known without asking.
  void add(std::shared_ptr<LeaseLink> link, std::uint32_t uid, const Json& lease, Json question) {
    Asked& asked = asked_.emplace_back();
    asked.link = std::move(link);
    asked.uid = uid;
    asked.lease = lease;
    asked.question = std::move(question);
  }
  void add_answer(const Json& answer) {
    Asked& asked = asked_.emplace_back();
    asked.lease = answer;
    asked.answered = true;
  }

  void start() {
    left_ = asked_.size() + 1;  // this function counts too, so that immediate answers do not end it early
    timer_.expires_after(kAnswerMax);
    timer_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->time_is_up();
    });
    for (std::size_t i = 0; i < asked_.size(); ++i) {
      if (asked_[i].link == nullptr) {
        one_less();
        continue;
      }
      asked_[i].id = asked_[i].link->ask(std::move(asked_[i].question), [self = shared_from_this(), i](auto answer) {
        self->take(self->asked_[i], std::move(answer));
      });
    }
    one_less();
  }

 private:
  static constexpr std::size_t kBytesMax = 15u << 20, kBytesOfUser = 4u << 20;
  struct Asked {
    std::shared_ptr<LeaseLink> link;
    std::uint32_t uid = 0;
    Json lease;
    Json question;
    std::uint64_t id = 0;
    bool answered = false, ended = false;
    AnswerMembers members;
  };

  void take(Asked& asked, std::optional<AnswerMembers> answer) {
    asked.answered = true;
    if (answer) {
      keep(asked, std::move(*answer));
    } else {
      asked.ended = true;
    }
    one_less();
  }
  void keep(Asked& asked, AnswerMembers answer) {
    std::size_t& of_user = bytes_of_[asked.uid];
    const std::size_t bytes = answer.size();
    const bool fits = bytes_ + bytes <= kBytesMax &&
                      (!accounts_.limited(asked.uid) || of_user + bytes <= kBytesOfUser) && held_.add(2 * bytes);
    if (fits) {
      bytes_ += bytes;
      of_user += bytes;
    }
    asked.members = fits ? std::move(answer) : error_members({EMSGSIZE, "its answer is too long beside the others"});
  }
  void one_less() {
    if (--left_ == 0) finish();
  }
  void time_is_up() {
    if (done_ == nullptr) return;
    for (Asked& asked : asked_) {
      if (asked.answered) continue;
      asked.link->give_up(asked.id);
      asked.members = error_members({ETIMEDOUT, "the program does not answer: it is stopped, or its library is older"});
    }
    finish();
  }
  void finish() {
    timer_.cancel();
    std::vector<std::string> answers;
    for (Asked& asked : asked_) {
      if (asked.ended) continue;  // as if it had ended before the question
      std::string text = asked.lease.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
      if (!asked.members.empty()) {
        text.pop_back();
        text.reserve(text.size() + asked.members.size() + 2);
        text.append(",").append(asked.members).append("}");
        AnswerMembers{}.swap(asked.members);
      }
      answers.push_back(std::move(text));
    }
    asked_.clear();
    std::exchange(done_, nullptr)(with_answers(frame_, answers));
  }

  asio::steady_timer timer_;
  UserAccounts& accounts_;
  std::uint32_t asker_;
  BytesFor held_;
  Json frame_;
  Done done_;
  std::vector<Asked> asked_;
  std::map<std::uint32_t, std::size_t> bytes_of_;  // by user
  std::size_t bytes_ = 0, left_ = 0;
};

ContextError too_many_questions() {
  return {EBUSY, "as many questions of this user as may wait at a time: ask again when one is answered"};
}

struct Question {
  std::string query;
  std::string device;  // empty: all
  std::optional<std::uint32_t> qp;
  Json settings;
  std::string what;
  std::string destination;
  Json packets = nullptr;  // of "recovery_retransmit": "psn", "count", "gaps"

  [[nodiscard]] bool changes() const {
    return query == "recovery_set" || query == "recovery_retransmit" || query.starts_with("managed_");
  }
};

std::string text_of(const Json& request, const char* key) {
  const auto found = request.find(key);
  return found != request.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

Question parsed_question(const Json& request) {
  Question question{.query = text_of(request, "query"),
                    .device = text_of(request, "device"),
                    .qp = std::nullopt,
                    .settings = {},
                    .what = text_of(request, "what"),
                    .destination = text_of(request, "destination"),
                    .packets = Json::object()};
  for (const char* key : {"psn", "count", "gaps"})
    if (const auto found = request.find(key); found != request.end()) question.packets[key] = *found;
  if (const auto qp = request.find("qp"); qp != request.end() && qp->is_number_unsigned()) {
    question.qp = qp->get<std::uint32_t>();
  }
  if (const auto settings = request.find("settings"); settings != request.end()) question.settings = *settings;
  return question;
}

// Queries without values of their own, and what the processes are to do.
struct PlainQuery {
  std::string_view query, what;  // an empty `what` matches any
  const char* action;

  [[nodiscard]] bool matches(const Question& question) const {
    return query == question.query && (what.empty() || what == question.what);
  }
};
constexpr std::array kPlainQueries{PlainQuery{"recovery", "", "recovery"},
                                   PlainQuery{"queue_pair_statistics", "", "statistics"},
                                   PlainQuery{"managed", "", "managed"},
                                   PlainQuery{"resource", "qp", "queue_pairs"},
                                   PlainQuery{"resource", "objects", "objects"},
                                   PlainQuery{"resource", "cq", "completion_queues"},
                                   PlainQuery{"resource", "mr", "memory_regions"},
                                   PlainQuery{"resource", "pd", "protection_domains"},
                                   PlainQuery{"resource", "srq", "shared_receive_queues"},
                                   PlainQuery{"resource", "gap", "gaps"},
                                   PlainQuery{"resource", "duplicate", "duplicates"}};

// The question to the processes. Null: not one of this kind.
Json question_of(const Question& question) {
  Json asked;
  for (const PlainQuery& plain : kPlainQueries) {
    if (plain.matches(question)) asked["do"] = plain.action;
  }
  if (question.query == "recovery_set") asked = {{"do", "set"}, {"settings", question.settings}};
  if (question.query == "recovery_retransmit") {
    asked = question.packets;
    asked["do"] = "retransmit";
  }
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

// `text`: lines `key=value`; `changes` replace those with the same key.
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

// Checks the right to make the change; keeps it for programs that start later. An error, or none.
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

// Only root and the program's user get numbers with which packets could be forged (io/management/management.h).
bool may_see_keys(const Options& options, std::uint32_t asker, std::uint32_t owner) {
  return !options.system || may_change(asker, owner);
}

void ask_processes(SessionHost& host, std::uint32_t asker, const Question& question, Done done) {
  const SharedState& state = host.book().state();
  if (!host.accounts().begin_question(asker)) return done(line_of(error_json(too_many_questions())));
  Json frame = Json::object();
  if (question.query == "recovery" || question.query == "recovery_set")
    frame["devices"] = devices_json(state, question.device);
  auto inquiry = std::make_shared<Inquiry>(host.context(), host.accounts(), asker, std::move(frame), std::move(done));
  for (std::uint32_t slot = 0; slot < state.slots_end; ++slot) {
    const SlotRecord& record = state.slots[slot];
    if (!concerns(question, state, slot)) continue;
    Json lease = lease_json(slot, record);
    if (question.changes() && !may_change(asker, record.uid)) {
      lease["error"] = {
          {"errno", EACCES},
          {"message", "only root and " + io::user_text(record.uid) + " may change what this program does"}};
      inquiry->add_answer(lease);
    } else if (auto link = host.link(slot)) {
      Json asked = question_of(question);
      if (may_see_keys(host.options(), asker, record.uid)) asked["keys"] = true;
      inquiry->add(std::move(link), record.uid, lease, std::move(asked));
    }
  }
  inquiry->start();
}

void refuse(const Done& done, const ContextError& reason) { done(line_of(error_json(reason))); }

// Events and alarms: of this daemon, not of the processes. A query for events waits for one.
bool begin_watch(SessionHost& host, std::uint32_t asker_uid, const Json& request, bool waits, const Done& done) {
  if (waits && !host.accounts().begin_question(asker_uid)) {
    refuse(done, too_many_questions());
    return true;
  }
  const Watch::Asker asker{.may_change = may_change(asker_uid, ::geteuid()),
                           .sees_only = host.options().system && host.accounts().limited(asker_uid)
                                            ? std::optional{asker_uid}
                                            : std::nullopt};
  return host.watch().answer(request, asker, [&accounts = host.accounts(), asker_uid, waits, done](std::string text) {
    if (waits) accounts.end_question(asker_uid);
    done(std::move(text));
  });
}

}  // namespace

bool begin_management(SessionHost& host, std::uint32_t asker_uid, std::string_view line, Done done) {
  const Json request = control::parse_json(line);
  if (!request.is_object()) return false;
  const Question question = parsed_question(request);
  const bool of_watch = question.query == "events" || question.query.starts_with("alarm");
  if (question_of(question).is_null() && !of_watch) return false;
  if (!may_use(host.options(), asker_uid) && asker_uid != 0) {
    refuse(done, not_for_you());
    return true;
  }
  if (of_watch) return begin_watch(host, asker_uid, request, question.query == "events", done);
  if (question.query == "recovery_retransmit" && !question.qp) {
    refuse(done, {EINVAL, "name a queue pair"});
    return true;
  }
  if (question.query == "recovery_set") {
    if (const auto wrong = keep_change(host, asker_uid, question)) {
      refuse(done, *wrong);
      return true;
    }
  }
  ask_processes(host, asker_uid, question, std::move(done));
  return true;
}

}  // namespace brdma::daemon
