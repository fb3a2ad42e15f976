#include "preload/runtime_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "io/refusal.h"

namespace brdma::preload {

std::vector<std::vector<std::string>> runtime_candidates() {
  std::vector<std::vector<std::string>> candidates;
  // Left over from another user after su or sudo: claim_directory() turns it down.
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR"); runtime != nullptr && runtime[0] == '/') {
    candidates.push_back({std::string(runtime) + "/brdma"});
  }
  const std::string name = "brdma-" + std::to_string(::geteuid());
  // In a user namespace the outer root's directory is somebody else's, under the name that is ours here.
  std::vector<std::string> temporary{"/tmp/" + name};
  for (int i = 1; i <= 8; ++i) temporary.push_back("/tmp/" + name + "-" + std::to_string(i));
  candidates.push_back(std::move(temporary));
  candidates.push_back({"/dev/shm/" + name});
  return candidates;
}

int claim_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno;
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return errno;  // not stat: a symlink may be somebody's trap
  const bool ours =
      S_ISDIR(status.st_mode) && status.st_uid == ::geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  return ours ? 0 : EPERM;
}

std::optional<std::string> with_runtime_directory(const std::function<int(const std::string&)>& use) {
  std::string tried;
  for (const auto& names : runtime_candidates()) {
    int error = EPERM;
    std::string path;
    for (std::size_t i = 0; i < names.size() && error == EPERM; ++i) {
      path = names[i];
      error = claim_directory(path);
    }
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
