// `brdma enable` and `brdma disable`: programs see the RDMA devices without `brdma run` before each, by configuration.

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "enable/in_force.h"
#include "enable/own_file.h"
#include "enable/places.h"
#include "enable/preload_list.h"
#include "enable/tree.h"
#include "grammar/help.h"
#include "objects.h"

namespace brdma {
namespace {

using enable::EnableError;
using enable::OwnFile;
using enable::Place;
using enable::Scope;
using enable::Target;
using enable::Tree;

struct Request {
  Target target;
  std::string root = "/", library;
  bool user = false, service = false, system = false, container = false;
};

[[noreturn]] void misuse() {
  throw UsageError("expected one of --user, --service UNIT, --system, --container DIR: see 'brdma enable --help'");
}

void take_enable_option(const std::string& word, Words& words, Request& request) {
  if (word == "--user") {
    request.user = true;
  } else if (word == "--service") {
    request.service = true;
    request.target.unit = enable::unit_name(words.take_value(word));
  } else if (word == "--system") {
    request.system = true;
  } else if (word == "--container") {
    request.container = true;
    request.root = words.take_value(word);
  } else if (word == "--all-programs") {
    request.target.all_programs = true;
  } else if (word == "--root") {
    request.root = words.take_value(word);
  } else if (word == "--library") {
    request.library = words.take_value(word);
  } else {
    throw grammar::unknown_option(word, "enable");
  }
}

Scope scope_of(const Request& request) {
  if (request.system || request.container) {
    if (request.user || request.service || (request.system && request.container)) misuse();
    return Scope::kSystem;
  }
  if (request.target.all_programs) throw UsageError("--all-programs goes with --system or --container DIR");
  if (request.service) return request.user ? Scope::kUserService : Scope::kService;
  if (!request.user) misuse();
  return Scope::kUser;
}

Request take_enable_request(Words& words) {
  Request request;
  while (!words.empty()) {
    const std::string word = words.take();
    take_enable_option(word, words, request);
  }
  request.target.scope = scope_of(request);
  return request;
}

void say(const std::string& words, const std::string& text) {
  if (std::printf("%s%s\n", words.c_str(), printable(text).c_str()) < 0) throw EnableError{"cannot write the output"};
}

void finish_output() {
  if (std::fflush(stdout) != 0) throw EnableError{"cannot write the output"};
}

std::set<std::string> claimed_now(const Tree& tree) {
  std::optional<enable::Home> home;
  try {
    home = enable::home_of_user();
  } catch (const EnableError&) {  // no user's files, then
  }
  return enable::claimed_directories(tree, enable::places_in(tree, home ? &*home : nullptr));
}

// Removes what this call has made, after a failure.
void undo(const Tree& tree, const std::vector<std::string>& made) {
  for (auto path = made.rbegin(); path != made.rend(); ++path) {
    try {
      (void)enable::remove_own_file(tree, *path);
    } catch (const EnableError& error) {
      print_error(error.what());
    }
  }
}

bool change_preload_list(const Tree& tree, const std::optional<std::string>& library) {
  enable::sweep_leftovers(tree, enable::kPreloadList);
  const std::optional<std::string> before = tree.read(enable::kPreloadList);
  if (!library && !before) return false;
  const std::optional<std::string> after =
      library ? enable::with_library(before, *library) : enable::without_library(*before);
  if (before == after) return false;
  enable::replace_shared_file(tree, enable::kPreloadList, before, after);
  return true;
}

// Own files of the target that are not wanted any more: the other way of --system.
std::vector<std::string> superseded(const Target& target, const std::vector<OwnFile>& files) {
  std::vector<std::string> paths;
  for (const std::string& path : enable::paths_of(target)) {
    const bool wanted = std::any_of(files.begin(), files.end(), [&](const OwnFile& file) { return file.path == path; });
    if (!wanted) paths.push_back(path);
  }
  return paths;
}

bool is_own_file(const Tree& tree, const std::string& path) { return enable::is_own(tree.read(path).value_or("")); }

bool remove_if_own(const Tree& tree, const std::string& path) {
  enable::sweep_leftovers(tree, path);
  return is_own_file(tree, path) && enable::remove_own_file(tree, path);
}

void say_next_step(const Request& request, const Tree& tree, const std::string& library) {
  const bool for_all = request.target.scope == Scope::kSystem;
  if (request.target.all_programs) return say("", "next: nothing; every program that is started now has the library");
  if (!tree.is_system()) {
    if (for_all) say("next: for programs that a container engine starts, give the image LD_PRELOAD=", library);
    return;
  }
  const std::string manager = request.target.scope == Scope::kService ? "systemctl " : "systemctl --user ";
  if (for_all) return say("next: systemctl daemon-reexec, ", "restart services, log in again");
  if (request.target.scope == Scope::kUser) {
    return say("next: log in again, or systemctl --user daemon-reexec; ", "in a shell: eval \"$(brdma env)\"");
  }
  say("next: " + manager + "daemon-reload && " + manager + "restart ", request.target.unit);
}

void put_files(const Tree& tree, const std::vector<OwnFile>& files, std::vector<std::string>& made) {
  for (const OwnFile& file : files) {
    const bool there = tree.exists(file.path);
    const bool changed = enable::put_own_file(tree, file, claimed_now(tree));
    if (changed && !there) made.push_back(file.path);
    say(changed ? "written " : "unchanged ", tree.shown(file.path));
  }
}

void put_preload_list(const Tree& tree, const Target& target, const std::string& library) {
  if (target.scope != Scope::kSystem) return;
  const bool wanted = target.all_programs;
  const bool changed = change_preload_list(tree, wanted ? std::optional{library} : std::nullopt);
  if (changed || wanted) say(changed ? "written " : "unchanged ", tree.shown(enable::kPreloadList));
}

void write_files(const Tree& tree, const Target& target, const std::string& library) {
  const std::vector<OwnFile> files = enable::files_for(tree, target, library);
  std::vector<std::string> made;
  try {
    put_files(tree, files, made);
    put_preload_list(tree, target, library);
  } catch (const std::exception&) {
    undo(tree, made);
    throw;
  }
  for (const std::string& path : superseded(target, files)) {
    if (remove_if_own(tree, path)) say("removed ", tree.shown(path));
  }
}

int show_in_force(Invocation& invocation) {
  Words& words = invocation.words;
  std::string root = "/";
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string word = words.take();
    if (word != "--root") throw UsageError("expected: brdma enable show [--root DIR]");
    root = words.take_value(word);
  }
  std::vector<Record> records;
  for (Json& fields : enable::in_force(Tree{root})) {
    if (!invocation.style.json && invocation.style.columns.empty() && fields["unit"].is_null()) fields.erase("unit");
    records.push_back({"", std::move(fields)});
  }
  if (records.empty() && !invocation.style.json) {
    std::fprintf(stderr,
                 "brdma: nothing is enabled: 'brdma run -- PROGRAM' for one program, 'brdma enable --help' for more\n");
  }
  print_records(records, invocation.style);
  finish_output();
  return 0;
}

bool wants_show(const Words& words) {
  static constexpr std::string_view kShow = "show";
  if (words.empty()) return true;
  return !words.peek().empty() && kShow.starts_with(words.peek());
}

}  // namespace

int enable_object(Invocation& invocation) {
  Words& words = invocation.words;
  take_style_options(words, invocation.style);
  if (wants_show(words)) {
    if (!words.empty()) words.take();
    return show_in_force(invocation);
  }
  const Request request = take_enable_request(words);
  const Tree tree{request.root};
  const bool for_all = request.target.scope == Scope::kService || request.target.scope == Scope::kSystem;
  const std::string library = enable::library_in(tree, request.library, for_all);
  write_files(tree, request.target, library);
  say_next_step(request, tree, library);
  finish_output();
  return 0;
}

int disable_object(Invocation& invocation) {
  Words& words = invocation.words;
  const Request request = take_enable_request(words);
  if (!request.library.empty() || request.target.all_programs) {
    throw UsageError("disable takes everything back: leave out --library and --all-programs");
  }
  const Tree tree{request.root};
  bool removed = false;
  const auto report = [&](const std::string& path) {
    removed = true;
    say("removed ", tree.shown(path));
  };
  if (request.target.scope == Scope::kSystem && change_preload_list(tree, std::nullopt)) {
    removed = true;
    say("taken out of ", tree.shown(enable::kPreloadList));
  }
  for (const std::string& path : enable::paths_of(request.target)) {
    if (remove_if_own(tree, path)) report(path);
  }
  if (!removed) say("", "nothing was enabled there");
  finish_output();
  return 0;
}

}  // namespace brdma
