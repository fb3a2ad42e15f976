// `brdma run`, `brdma env` and `brdma perf`: programs that see the RDMA devices. `brdma metrics`: the program that
// serves Prometheus. `brdma sim`: the simulator.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "check/require.h"
#include "control/config.h"
#include "device_files/kernel_devices.h"
#include "grammar/help.h"
#include "namespace.h"
#include "objects.h"
#include "programs.h"
#include "settings/settings_option.h"

namespace brdma {

namespace {

struct RunOptions {
  bool in_namespace = false, required = false, with_kernel_devices = false;
};

// Those before the program; "--" ends them.
RunOptions take_run_options(Words& words) {
  RunOptions options;
  while (!words.empty() && words.peek().starts_with("-")) {
    const std::string word = words.take();
    if (word == "--") break;
    if (word == "--namespace") {
      options.in_namespace = true;
    } else if (word == "--require") {
      options.required = true;
    } else if (word == "--with-kernel-devices") {
      options.with_kernel_devices = true;
    } else if (!take_setting(word, words)) {
      throw grammar::unknown_option(word, "run");
    }
  }
  return options;
}

constexpr char kKernelDevices[] = "BRDMA_KERNEL_DEVICES";

// Whether settings say that programs see the kernel's devices, or that they don't. RDMA-CM of the kernel is of its own.
bool is_settled(const control::LoadedSettings& loaded) {
  const auto report = std::ranges::find(loaded.reports, kKernelDevices, &control::SettingReport::variable);
  return report->source != control::SettingSource::kDefault || loaded.settings.kernel_rdma_cm;
}

// The kernel's devices are shown where somebody wants them. A cloud's machines have some that nobody asked for, and
// many programs take the first device. A program that is started by this one keeps what was settled here.
void settle_kernel_devices(bool shown) {
  if (shown) setenv(kKernelDevices, "true", 1);
  if (is_settled(control::load_settings())) return;
  setenv(kKernelDevices, "false", 1);
  std::string names;
  for (const preload::TreeEntry& entry : preload::kernel_devices()) {
    constexpr std::string_view kList = "sys/class/infiniband/";
    if (entry.path.starts_with(kList)) names += (names.empty() ? "" : ", ") + entry.path.substr(kList.size());
  }
  if (names.empty()) return;
  print_error("the kernel's own devices are not shown: 'brdma run --with-kernel-devices' shows " + names);
}

}  // namespace

int run_object(Invocation& invocation) {
  Words& words = invocation.words;
  const RunOptions options = take_run_options(words);
  if (words.empty()) throw UsageError(grammar::usage("run"));
  std::vector<std::string> command = words.take_rest();
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  settle_kernel_devices(options.with_kernel_devices);
  const std::string library = find_library();
  const auto become = [&] {
    if (!options.in_namespace) return exec_with_devices(library, argv.data());
    enter_namespace(library);
    return exec_program(argv.data());
  };
  return options.required ? check::run_required(argv.front(), become) : become();
}

// Another program, so that nothing of brdmad or of this one needs Prometheus' library, or parses a stranger's bytes.
int metrics_object(Invocation& invocation) {
  std::vector<std::string> command = invocation.words.take_rest();
  command.insert(command.begin(), metrics_program());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  return exec_program(argv.data());
}

// The program measures any device. Where there is none, or with --ours, it runs under the library.
int perf_object(Invocation& invocation) {
  std::vector<std::string> command{find_own_program("brdma-perf")};
  for (std::string& word : invocation.words.take_rest()) command.push_back(std::move(word));
  if (invocation.style.json) command.emplace_back("-j");
  const bool ours = std::find(command.begin(), command.end(), "--ours") != command.end();
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::error_code error;
  const bool has_device =
      std::filesystem::directory_iterator{"/sys/class/infiniband", error} != std::filesystem::directory_iterator{};
  if (has_device && !ours) return exec_program(argv.data());
  return exec_with_devices(find_library(), argv.data());
}

// Another program, so that nothing of this one needs the simulator.
int sim_object(Invocation& invocation) {
  std::vector<std::string> command{find_own_program("brdma-sim")};
  for (std::string& word : invocation.words.take_rest()) command.push_back(std::move(word));
  if (command.size() == 1) throw UsageError(grammar::usage("sim"));
  if (invocation.style.json) command.emplace_back("--json");
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  return exec_program(argv.data());
}

int env_object(Invocation& invocation) {
  if (!invocation.words.empty()) throw UsageError("expected: eval \"$(brdma env)\"");
  for (const auto& [name, value] : preload_environment(find_library())) {
    std::string quoted;
    for (const char c : value) quoted += c == '\'' ? std::string{"'\\''"} : std::string{c};
    std::printf("export %s='%s'\n", name.c_str(), quoted.c_str());
  }
  return 0;
}

}  // namespace brdma
