// `brdma check`: which device, path and mode programs get here, what is wrong, and the next step.

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "check/check.h"
#include "check/collect/collect.h"
#include "check/report.h"
#include "grammar/help.h"
#include "objects.h"
#include "programs.h"

namespace brdma {
namespace {

constexpr unsigned short kPort = 18491;  // TCP, for the start of a measurement

struct Request {
  std::string peer, program;
  bool listen = false, once = false;
  unsigned short port = kPort;
};

unsigned short take_port(Words& words) {
  const std::string text = words.take_value("--port");
  unsigned short port = 0;
  const auto [stopped, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc{} || stopped != text.data() + text.size() || port == 0) {
    throw UsageError("--port '" + text + "': expected 1..65535");
  }
  return port;
}

// Behind "--".
void take_program(Request& request, Words& words) {
  if (words.empty()) throw UsageError("expected a program behind --");
  request.program = words.take();
  static_cast<void>(words.take_rest());  // its arguments
}

void take_word(Request& request, const std::string& word) {
  if (word == "--listen") {
    request.listen = true;
  } else if (word == "--once") {
    request.once = true;
  } else if (word.starts_with("-")) {
    throw grammar::unknown_option(word, "check");
  } else if (!request.peer.empty()) {
    throw UsageError(grammar::usage("check"));
  } else {
    request.peer = word;
  }
}

Request take_request(Invocation& invocation) {
  Words& words = invocation.words;
  Request request;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string word = words.take();
    if (word == "--port") {
      request.port = take_port(words);
    } else if (word == "--") {
      take_program(request, words);
    } else {
      take_word(request, word);
    }
  }
  if (request.listen && (!request.peer.empty() || !request.program.empty())) {
    throw UsageError("--listen takes neither a peer nor a program");
  }
  if (request.once && !request.listen) throw UsageError("--once goes with --listen");
  return request;
}

// Becomes the server, with the devices in sight.
int serve(const Request& request) {
  std::vector<std::string> words{own_program(), "check-probe", "listen", std::to_string(request.port)};
  if (request.once) words.emplace_back("once");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return exec_with_devices(find_library(), argv.data());
}

}  // namespace

namespace check {

Facts collect_all() {
  Facts facts;
  collect_library(facts.library);
  collect_configuration(facts.configuration);
  collect_devices(facts);
  collect_host(facts.host);
  collect_daemon(facts.daemon);
  if (!facts.library.path.empty()) collect_probe(facts);
  return facts;
}

}  // namespace check

int check_object(Invocation& invocation) {
  const Request request = take_request(invocation);
  if (request.listen) return serve(request);
  check::Facts facts = check::collect_all();
  if (!request.program.empty()) facts.program = check::collect_program(request.program);
  if (!request.peer.empty()) check::collect_peer(facts, request.peer, request.port);
  const std::vector<check::Finding> findings = check::find_all(facts);
  check::print_report(facts, findings, invocation.style);
  return check::has_error(findings) ? 1 : 0;
}

}  // namespace brdma
