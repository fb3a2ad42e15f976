#include "device_files/runtime_directory.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "io/daemon/refusal.h"

namespace brdma::preload {
namespace {

constexpr std::string_view kAnyEnd = "XXXXXX";  // as mkdtemp(3) has it
constexpr int kEntriesMax = 10'000;             // of a scanned directory

// Not stat: a symlink may be somebody's trap.
bool is_ours(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() &&
         (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// The first of a candidate's names that is this user's; `path`: the last one that was tried. EPERM: none is.
int claim_candidate(const std::vector<std::string>& names, std::string& path) {
  for (const std::string& name : names) {
    path = name;
    const int error = path.ends_with(kAnyEnd) ? claim_any_directory(path) : claim_directory(path);
    if (error != EPERM) return error;
  }
  return EPERM;
}

}  // namespace

std::vector<std::vector<std::string>> runtime_candidates() {
  std::vector<std::vector<std::string>> candidates;
  // Left over from another user after su or sudo: claim_directory() refuses it.
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && runtime[0] == '/') {
    candidates.push_back({std::string(runtime) + "/brdma"});
  }
  const std::string name = "brdma-" + std::to_string(::geteuid());
  // In a user namespace the outer root's directory belongs to somebody else, under the name that is ours here.
  std::vector<std::string> temporary{"/tmp/" + name};
  temporary.push_back("/tmp/" + name + "." + std::string(kAnyEnd));
  candidates.push_back(std::move(temporary));
  candidates.push_back({"/dev/shm/" + name, "/dev/shm/" + name + "." + std::string(kAnyEnd)});
  return candidates;
}

int claim_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno;
  return is_ours(path) ? 0 : EPERM;
}

int claim_any_directory(std::string& path) {
  const std::size_t name_at = path.rfind('/') + 1;
  const std::string directory = path.substr(0, name_at),
                    begin = path.substr(name_at, path.size() - name_at - kAnyEnd.size());
  const std::unique_ptr<DIR, int (*)(DIR*)> entries{::opendir(directory.c_str()), ::closedir};
  for (int seen = 0; entries != nullptr && seen < kEntriesMax; ++seen) {
    const dirent* const entry = ::readdir(entries.get());
    if (entry == nullptr) break;
    const std::string found = directory + entry->d_name;
    if (!std::string_view{entry->d_name}.starts_with(begin) || !is_ours(found)) continue;
    path = found;
    return 0;
  }
  return ::mkdtemp(path.data()) != nullptr ? 0 : errno;
}

std::optional<std::string> with_runtime_directory(const std::function<int(const std::string&)>& use) {
  std::string tried;
  for (const auto& names : runtime_candidates()) {
    std::string path;
    int error = claim_candidate(names, path);
    if (error == 0) error = use(path);
    if (error == 0) return std::nullopt;
    if (error == EMFILE || error == ENFILE) return io::refusal("cannot write the device files", error);
    tried += (tried.empty() ? "" : "; ") + path + ": " + std::strerror(error);
    if (error == EPERM) tried += " (not a directory of this user alone)";
  }
  return "cannot write the device files (" + tried +
         "): set XDG_RUNTIME_DIR to a directory of your own with room in it";
}

}  // namespace brdma::preload
