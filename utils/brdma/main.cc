// brdma - the command line: brdma [-j|-p|-d] OBJECT COMMAND, after iproute2's rdma(8). docs/reference/cli.md
// Exit codes: 0 done, 1 failed, 2 misuse; run and lab exec/pair return the program's own.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "check/probe/probe.h"
#include "grammar/help.h"
#include "lab/processes/keeper.h"
#include "objects.h"
#include "output.h"

namespace brdma {
namespace {

int print_version() {
  std::printf("brdma %s\n", BRDMA_VERSION);
  return 0;
}

// Objects are rows of grammar/objects.cc.
int dispatch(std::vector<std::string> arguments) {
  if (const auto topic = grammar::asked_topic(arguments)) {
    std::fputs(grammar::help_text(*topic).c_str(), stdout);
    return 0;
  }
  Invocation invocation{Words{std::move(arguments)}, {}};
  invocation.style.terminal = isatty(STDOUT_FILENO) != 0;
  Words& words = invocation.words;
  while (!words.empty() && words.peek().starts_with("-")) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string option = words.take();
    if (option == "-V" || option == "--version") return print_version();
    throw grammar::unknown_option(option);
  }
  if (words.empty()) {
    std::fputs(grammar::help_text({}).c_str(), stdout);
    return 2;
  }
  const std::string word = words.take();
  if (word == "version") return print_version();
  const grammar::Object* const object = grammar::find_object(word);
  if (object == nullptr) throw grammar::unknown_object(word);
  return object->run(invocation);
}

}  // namespace

namespace {

// "KEY,KEY" of -o
std::vector<std::string> split_keys(const std::string& list) {
  std::vector<std::string> keys;
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t comma = std::min(list.find(',', from), list.size());
    if (comma > from) keys.push_back(list.substr(from, comma - from));
    from = comma + 1;
  }
  if (keys.empty()) throw UsageError("-o '" + list + "': expected KEY,KEY: -d shows the keys that there are");
  return keys;
}

}  // namespace

bool take_style_option(Words& words, OutputStyle& style) {
  const std::string word = words.peek();
  if (word == "-o" || word == "-columns" || word == "--columns") {
    words.take();
    style.columns = split_keys(words.take_value(word));
    return true;
  }
  if (word == "-j" || word == "-json" || word == "--json") {
    style.json = true;
  } else if (word == "-p" || word == "-pretty" || word == "--pretty") {
    style.json = style.pretty = true;
  } else if (word == "-jp" || word == "-pj") {
    style.json = style.pretty = true;
  } else if (word == "-d" || word == "-details" || word == "--details") {
    ++style.details;
  } else if (word == "-dd") {
    style.details += 2;
  } else if (word == "-jd" || word == "-dj") {
    style.json = true;
    ++style.details;
  } else {
    return false;
  }
  words.take();
  return true;
}

void take_style_options(Words& words, OutputStyle& style) {
  while (!words.empty() && take_style_option(words, style)) {
  }
}

}  // namespace brdma

int main(int argc, char** argv) {
  try {
    if (argc == 3 && std::string_view{argv[1]} == "lab-keeper") {
      return brdma::lab::run_keeper(brdma::lab::keeper_description(argv[2]));
    }
    if (argc >= 2 && std::string_view{argv[1]} == "check-probe") return brdma::probe::run({argv + 2, argv + argc});
    // Beyond the usual buffer a failed write is found between two prints, where its reason is lost (flush_output).
    static std::array<char, std::size_t{1} << 20> buffer;
    if (isatty(STDOUT_FILENO) == 0) std::setvbuf(stdout, buffer.data(), _IOFBF, buffer.size());
    const int code = brdma::dispatch({argv + 1, argv + argc});
    brdma::flush_output();
    return code;
  } catch (const brdma::UsageError& error) {
    brdma::print_error(error.what());
    return 2;
  } catch (const std::exception& error) {
    brdma::print_error(error.what());
    return 1;
  }
}
