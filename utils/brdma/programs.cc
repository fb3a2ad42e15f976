#include "programs.h"

#include <limits.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace brdma {
namespace {

// The name that the loader knows it by, then the one that compilers use.
constexpr std::array<std::string_view, 2> kLibraryNames{"libbitmaprdma.so.1", "libbitmaprdma.so"};

std::string resolved(const std::string& path) {
  std::array<char, PATH_MAX> out{};
  return realpath(path.c_str(), out.data()) != nullptr ? std::string{out.data()} : std::string{};
}

// The loader ignores LD_PRELOAD paths in programs that gain rights when they start.
void warn_if_privileged(const std::string& program) {
  const std::string file = find_in_path(program);
  struct stat info {};
  if (file.empty() || stat(file.c_str(), &info) != 0) return;
  const bool changes_user = (info.st_mode & S_ISUID) != 0 || (info.st_mode & S_ISGID) != 0;
  const bool has_capabilities = getxattr(file.c_str(), "security.capability", nullptr, 0) > 0;
  if (changes_user || has_capabilities) {
    std::fprintf(
        stderr,
        "brdma: %s is set-user-ID or has file capabilities: the loader drops LD_PRELOAD there, and it will see "
        "no device; run a copy without them, or, as root, 'brdma run --namespace'\n",
        file.c_str());
  }
}

enum class Place { kFirst, kLast };

// The variable's present value, a list split at any of `separators`, with the entry in it.
std::string with_entry(const char* variable, const char* separators, const std::string& entry, Place place) {
  const char* present = std::getenv(variable);
  if (present == nullptr || *present == '\0') return entry;
  const std::string value{present};
  for (std::size_t from = 0; from <= value.size();) {
    const std::size_t end = std::min(value.find_first_of(separators, from), value.size());
    if (value.compare(from, end - from, entry) == 0) return value;
    from = end + 1;
  }
  return place == Place::kFirst ? entry + ":" + value : value + ":" + entry;
}

}  // namespace

std::string find_in_path(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* path = std::getenv("PATH");
  std::string_view rest = path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
  while (!rest.empty()) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), folder.size() + 1));
    std::string candidate = (folder.empty() ? "." : std::string{folder}) + "/" + program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

std::string own_program() {
  std::string self = resolved("/proc/self/exe");
  const auto* const started_as = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (self.empty() && started_as != nullptr) self = resolved(started_as);
  return self;
}

std::string own_directory() {
  const std::string self = own_program();
  const std::size_t slash = self.rfind('/');
  return slash == std::string::npos ? std::string{} : self.substr(0, slash);
}

std::string find_own_program(const std::string& name) {
  const std::string beside = own_directory() + "/" + name;
  if (access(beside.c_str(), X_OK) == 0) return beside;
  const std::string in_path = find_in_path(name);
  if (!in_path.empty()) return in_path;
  throw ProgramMissing(name + " not found (looked in " + own_directory() +
                       " and in PATH); build it with: ninja -C build " + name);
}

std::string metrics_program() {
  try {
    return find_own_program("brdma-metrics");
  } catch (const ProgramMissing&) {
    throw ProgramMissing(
        "this build has no metrics: install prometheus-cpp (Debian's package: prometheus-cpp-dev), then configure and "
        "build it again");
  }
}

std::string find_library() {
  const std::string beside = own_directory() + "/../";
  std::string looked;
  for (const std::string& folder :
       {beside + "lib/", beside + BRDMA_RELATIVE_LIBDIR "/", std::string{BRDMA_INSTALL_LIBDIR "/"}}) {
    for (const std::string_view name : kLibraryNames) {
      const std::string path = resolved(folder + std::string{name});
      if (!path.empty() && access(path.c_str(), R_OK) == 0) return path;
    }
    looked += (looked.empty() ? "" : ", ") + folder;
  }
  throw ProgramMissing(std::string{kLibraryNames.front()} + " not found beside brdma (looked in " + looked +
                       "); build it with: ninja -C build");
}

std::vector<std::pair<std::string, std::string>> preload_environment(const std::string& library) {
  if (library.find_first_of(": ") == std::string::npos) {
    return {{"LD_PRELOAD", with_entry("LD_PRELOAD", ": ", library, Place::kLast)}};
  }
  const std::size_t slash = library.rfind('/');
  const std::string folder = library.substr(0, slash);
  if (folder.find_first_of(":;") != std::string::npos) {
    throw ProgramMissing("the loader cannot preload " + library + ": its path has a ':' or ';'; move it");
  }
  return {{"LD_PRELOAD", with_entry("LD_PRELOAD", ": ", library.substr(slash + 1), Place::kLast)},
          {"LD_LIBRARY_PATH", with_entry("LD_LIBRARY_PATH", ":;", folder, Place::kFirst)}};
}

int exec_program(char* const* argv) {
  execvp(argv[0], argv);
  int error = errno;
  if (std::strchr(argv[0], '/') == nullptr) {  // ours need not be in PATH
    execv((own_directory() + "/" + argv[0]).c_str(), argv);
    if (errno != ENOENT) error = errno;
  }
  std::fprintf(stderr, "brdma: cannot run %s: %s\n", argv[0], std::strerror(error));
  return error == ENOENT ? 127 : 126;
}

int exec_with_devices(const std::string& library, char* const* argv) {
  warn_if_privileged(argv[0]);
  try {
    for (const auto& [name, value] : preload_environment(library)) setenv(name.c_str(), value.c_str(), 1);
  } catch (const ProgramMissing& reason) {  // in a child: nobody catches
    std::fprintf(stderr, "brdma: %s\n", reason.what());
    return 126;
  }
  return exec_program(argv);
}

}  // namespace brdma
