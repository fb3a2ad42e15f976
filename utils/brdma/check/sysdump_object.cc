// `brdma sysdump`: what a report of a problem needs, in one text file.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check/check.h"
#include "check/collect/child.h"
#include "check/report.h"
#include "grammar/help.h"
#include "io/system/file_descriptor.h"
#include "objects.h"
#include "programs.h"

extern char** environ;

namespace brdma {
namespace {

constexpr unsigned kSeconds = 10;                // of a command
constexpr std::size_t kSectionMax = 256u << 10;  // bytes; what is beyond is cut
constexpr unsigned kNamesMax = 9;                // default names of one second
// Of this program; each answers without a device, too.
const std::vector<std::vector<std::string>> kCommands{{"-d", "dev"},
                                                      {"-d", "link"},
                                                      {"system"},
                                                      {"system", "show", "config"},
                                                      {"recovery", "show", "dev"},
                                                      {"resource"},
                                                      {"resource", "show", "ctx"},
                                                      {"statistic", "show", "qp"},
                                                      {"-d", "statistic"},
                                                      {"statistic", "show", "cm"},
                                                      {"event", "since", "10m"},
                                                      {"alarm"},
                                                      {"managed"}};
constexpr std::array kFiles{"/etc/os-release",
                            "/proc/version",

                            "/proc/loadavg",
                            "/proc/self/limits",
                            "/proc/self/status",
                            "/proc/self/cgroup",
                            "/proc/self/uid_map",
                            "/proc/net/udp",
                            "/proc/net/udp6",
                            "/proc/net/dev",
                            "/proc/net/snmp",
                            "/proc/sys/net/core/rmem_max",
                            "/proc/sys/net/core/wmem_max",
                            "/proc/sys/net/core/optmem_max",
                            "/proc/sys/net/ipv4/ip_local_port_range",
                            "/proc/sys/kernel/unprivileged_bpf_disabled",
                            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
                            "/etc/bitmaprdma.toml",
                            "/etc/libibverbs.d/bitmaprdma.driver",
                            "/etc/ld.so.preload"};
constexpr std::array<std::string_view, 8> kVariables{"BRDMA_",   "LD_PRELOAD=", "LD_LIBRARY_PATH=", "RDMAV_", "IBV_",
                                                     "NCCL_IB_", "UCX_",        "XDG_RUNTIME_DIR="};

// A section of the file: "== NAME ==" and lines that a terminal can show.
std::string section(const std::string& name, std::string_view text) {
  std::string out = "== " + printable(name) + " ==\n";
  const bool cut = text.size() > kSectionMax;
  text = text.substr(0, kSectionMax);
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    out += printable(line) + "\n";
  }
  return out + (cut ? "(cut)\n\n" : "\n");
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// PSNs of running connections are no matter of a report.
std::string without_psns(const std::string& text) {
  constexpr std::string_view kKey = " psn ";
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = std::min(text.find(kKey, at), text.size());
    out.append(text, at, found - at);
    if (found == text.size()) break;
    out.append(kKey).append("-");
    at = std::min(text.find_first_not_of("0123456789", found + kKey.size()), text.size());
  }
  return out;
}

std::string output_of(const std::vector<std::string>& words) {
  const auto program = [&words] {
    std::vector<std::string> all{own_program()};
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (std::string& word : all) argv.push_back(word.data());
    argv.push_back(nullptr);
    return exec_program(argv.data());
  };
  const check::ChildRun run = check::run_child(program, kSeconds);
  std::string text = without_psns(run.output);
  for (const std::string& message : run.messages) text += message + "\n";
  if (!run.error.empty()) text += run.error + "\n";
  if (!run.in_time) text += "(no answer within " + std::to_string(kSeconds) + " s)\n";
  return text + "exit code " + std::to_string(run.exit_code) + "\n";
}

std::string content_of(const char* path) {
  std::ifstream file{path, std::ios::binary};
  if (!file) return std::string{std::strerror(errno)} + "\n";
  std::string text(kSectionMax + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string variables() {
  std::string text;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view one{*entry};
    const auto begins = [one](std::string_view name) { return one.starts_with(name); };
    if (std::any_of(kVariables.begin(), kVariables.end(), begins)) text.append(one).append("\n");
  }
  return text;
}

std::string system_text() {
  utsname names{};
  ::uname(&names);
  return std::string{names.sysname} + " " + names.release + " " + names.version + " " + names.machine + "\nbrdma " +
         BRDMA_VERSION + "\nuser " + std::to_string(::geteuid()) + "\n";
}

std::string dump() {
  const check::Facts facts = check::collect_all();
  const auto findings = check::find_all(facts);
  std::string text =
      "brdma sysdump: no keys and no data are in this file. It has names and addresses of interfaces, names of\n"
      "processes that use devices, settings with their sources, counters, limits, and variables of RDMA libraries.\n\n";
  text += section("system", system_text());
  text += section("check", check::report_text(facts, findings));
  text += section("check -j", check::report_json(facts, findings).dump(1, ' ', true, Json::error_handler_t::replace));
  std::string messages;
  for (const std::string& message : facts.probe.messages) messages += message + "\n";
  text += section("messages of the library", messages);
  text += section("variables", variables());
  for (const auto& words : kCommands) text += section("brdma " + joined(words), output_of(words));
  for (const char* path : kFiles) text += section(path, content_of(path));
  return text;
}

std::string default_name(const std::tm& now, unsigned number) {
  std::array<char, 64> name{};
  std::strftime(name.data(), name.size(), "brdma-sysdump-%Y%m%d-%H%M%S", &now);
  return name.data() + (number == 1 ? std::string{} : "-" + std::to_string(number)) + ".txt";
}

[[noreturn]] void fail(const std::string& name) {
  throw std::runtime_error(name + " cannot be written: " + std::strerror(errno) + ": name another file");
}

void write_all(int fd, std::string_view text, const std::string& name) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail(name);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

io::FileDescriptor open_new(const std::string& name, int flags) {
  return io::FileDescriptor{::open(name.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0600)};
}

// A file of this command alone: whoever can write into the directory may have foreseen the name, and made a link of it.
io::FileDescriptor open_default(std::string& name) {
  const std::time_t time = std::time(nullptr);
  std::tm now{};
  ::localtime_r(&time, &now);
  for (unsigned number = 1; number <= kNamesMax; ++number) {
    name = default_name(now, number);
    io::FileDescriptor file = open_new(name, O_EXCL);
    if (file.valid() || errno != EEXIST) return file;
  }
  errno = EEXIST;
  return {};
}

void write_dump(std::string name) {
  if (name == "-") return write_all(STDOUT_FILENO, dump(), "standard output");
  const io::FileDescriptor file = name.empty() ? open_default(name) : open_new(name, O_TRUNC);
  if (!file.valid()) fail(name);
  write_all(file.get(), dump(), name);
  if (::fsync(file.get()) != 0 && errno != EINVAL && errno != EROFS) fail(name);
  std::printf("%s\n", name.c_str());
}

}  // namespace

int sysdump_object(Invocation& invocation) {
  Words& words = invocation.words;
  std::string name;
  while (!words.empty()) {
    if (take_style_option(words, invocation.style)) continue;
    const std::string word = words.take();
    if (!name.empty() || (word.starts_with("-") && word != "-")) throw UsageError(grammar::usage("sysdump"));
    name = word;
  }
  write_dump(std::move(name));
  return 0;
}

}  // namespace brdma
