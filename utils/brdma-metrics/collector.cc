#include "collector.h"

#include <cerrno>
#include <utility>

#include "io/daemon/daemon_client.h"
#include "io/daemon/lease_protocol.h"

namespace brdma::metrics {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kValidFor{1000};
constexpr milliseconds kDaemonAnswers{1000}, kProgramsAnswer{4000};  // a program has 3 s (docs/explanation/daemon.md)

// brdmad's answer, or null and the reason in `failed`.
Json ask(const char* query, milliseconds answer_within, Answer& failed) {
  auto reply = io::ask_at(io::kDaemonName, {{"query", query}}, answer_within);
  if (!reply.ok()) {
    failed.error = reply.reason().error == ECONNREFUSED ? ENOENT : reply.reason().error;
    failed.message = failed.error == ENOENT ? "no brdmad runs in this network namespace: no program uses a device"
                                            : reply.reason().message;
    return nullptr;
  }
  const auto refused = reply.value().find("error");
  if (refused == reply.value().end()) return std::move(reply.value());
  const auto message = refused->is_object() ? refused->find("message") : refused->end();
  failed.error = EACCES;
  failed.message = message != refused->end() && message->is_string() ? message->get<std::string>() : refused->dump();
  return nullptr;
}

}  // namespace

Answer Collector::collect() const {
  Answer result;
  Facts facts;
  facts.devices = list_devices();
  facts.statistics = ask("statistics", kDaemonAnswers, result);
  if (result.error == 0) facts.alarms = ask("alarms", kDaemonAnswers, result);
  if (result.error == 0 && queue_pairs_) facts.queue_pairs = ask("queue_pair_statistics", kProgramsAnswer, result);
  result.text = std::make_shared<const std::string>(metrics_text(facts));
  return result;
}

const Answer& Collector::answer() {
  if (last_.text == nullptr || steady_clock::now() >= valid_until_) {
    last_ = collect();
    valid_until_ = steady_clock::now() + kValidFor;
  }
  return last_;
}

}  // namespace brdma::metrics
