#include "view/show_request.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>

#include "grammar/help.h"
#include "io/daemon/daemon_client.h"

namespace brdma {
namespace {

constexpr std::array<std::string_view, 2> kShowWords{"show", "list"};

bool is_show(const std::string& word) { return find_word(word, kShowWords) >= 0; }

std::string device_word(Words& words) {
  std::string word = words.take();
  if (word == "dev" || word == "link") word = words.take_value(word);
  word.resize(std::min(word.size(), word.find("/1")));
  return word;
}

}  // namespace

ShowFilter parse_show(Invocation& invocation, std::string_view object) {
  Words& words = invocation.words;
  ShowFilter filter;
  for (bool first = true; !words.empty();) {
    if (take_style_option(words, invocation.style)) continue;
    if (first && is_show(words.peek())) {
      words.take();
    } else if (!filter.device.empty() || words.peek().starts_with("-")) {
      throw grammar::unexpected(words.peek(), object);
    } else {
      filter.device = device_word(words);
    }
    first = false;
  }
  return filter;
}

void take_show(Words& words) {
  if (!words.empty() && is_show(words.peek())) words.take();
}

bool takes_show_of(Invocation& invocation, std::string_view what) {
  Words& words = invocation.words;
  take_style_options(words, invocation.style);
  take_show(words);
  const bool found = !words.empty() && words.peek() == what;
  if (found) {
    words.take();
    take_show(words);
  }
  return found;
}

std::optional<Json> ask_daemon(const char* query) {
  const auto answer = io::query_daemon({{"query", query}});
  if (answer.ok()) return std::optional<Json>(std::in_place, answer.value());
  if (answer.reason().error == ENOENT) {
    std::fprintf(stderr, "brdma: no brdmad runs in this network namespace: no program uses a device\n");
    return std::nullopt;
  }
  throw std::runtime_error(answer.reason().message);
}

}  // namespace brdma
