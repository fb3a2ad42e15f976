#include "enable/attributes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "enable/tree.h"

namespace brdma::enable {
namespace {

constexpr mode_t kModeBits = 07777;

// A file system without attributes has none to copy.
std::vector<char> attribute_names(int file) {
  const ssize_t size = flistxattr(file, nullptr, 0);
  std::vector<char> names(size > 0 ? static_cast<std::size_t>(size) : 0);
  const ssize_t got = names.empty() ? 0 : flistxattr(file, names.data(), names.size());
  names.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return names;
}

void copy_attribute(int from, int to, const char* name, const std::string& shown) {
  const ssize_t size = fgetxattr(from, name, nullptr, 0);
  if (size < 0) return;  // gone meanwhile
  std::vector<char> value(static_cast<std::size_t>(size));
  if (fgetxattr(from, name, value.data(), value.size()) != size) return;
  if (fsetxattr(to, name, value.data(), value.size(), 0) != 0 && errno != ENOTSUP) throw file_error(shown, errno);
}

}  // namespace

void copy_attributes(int like, int folder, const std::string& name, const std::string& shown) {
  struct stat status {};
  if (fstat(like, &status) != 0) throw file_error(shown, errno);
  const io::FileDescriptor file{openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC)};
  if (!file.valid()) throw file_error(shown, errno);
  struct stat present {};
  if (fstat(file.get(), &present) != 0) throw file_error(shown, errno);
  const bool same_owner = present.st_uid == status.st_uid && present.st_gid == status.st_gid;
  if (!same_owner && fchown(file.get(), status.st_uid, status.st_gid) != 0) throw file_error(shown, errno);
  if (fchmod(file.get(), status.st_mode & kModeBits) != 0) throw file_error(shown, errno);
  const std::vector<char> names = attribute_names(like);
  for (std::size_t at = 0; at < names.size(); at += std::char_traits<char>::length(&names[at]) + 1) {
    copy_attribute(like, file.get(), &names[at], shown);
  }
}

}  // namespace brdma::enable
