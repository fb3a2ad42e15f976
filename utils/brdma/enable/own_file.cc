#include "enable/own_file.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>
#include <vector>

#include "enable/attributes.h"

namespace brdma::enable {
namespace {

constexpr std::string_view kMark = "# Written by 'brdma enable'; 'brdma disable' removes it. Do not edit.\n";
constexpr std::string_view kMade = "# Directories made for it: ";
constexpr std::string_view kNew = ".brdma-new", kOld = ".brdma-old";
constexpr int kAttempts = 8;  // of changes that another command crosses

using Parts = std::vector<std::string>;

std::string joined(const Parts& parts, std::size_t count) {
  std::string path;
  for (std::size_t i = 0; i < count; ++i) path += "/" + parts[i];
  return path.empty() ? "/" : path;
}

std::string hidden(const std::string& name, std::string_view suffix) { return "." + name + std::string{suffix}; }

std::string whole_text(const OwnFile& file, std::size_t made) {
  return std::string{kMark} + std::string{kMade} + std::to_string(made) + "\n" + file.body;
}

// Removes the chain parts[at..], whose first name is `name`, as far as it exists and holds nothing else.
// False: something else is in it.
bool clear_chain(int folder, const std::string& name, const Parts& parts, std::size_t at) {
  if (at + 1 == parts.size()) return unlinkat(folder, name.c_str(), 0) == 0 || errno == ENOENT;
  const io::FileDescriptor below{openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!below.valid()) return errno == ENOENT;
  if (!clear_chain(below.get(), parts[at + 1], parts, at + 1)) return false;
  return unlinkat(folder, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT;
}

// Removes what an interrupted command left on the way to the file.
void sweep(const Tree& tree, const Parts& parts) {
  for (std::size_t at = 0; at < parts.size(); ++at) {
    const io::FileDescriptor folder = tree.open(joined(parts, at), O_RDONLY | O_DIRECTORY);
    if (!folder.valid()) return;
    (void)clear_chain(folder.get(), hidden(parts[at], kNew), parts, at);
    (void)clear_chain(folder.get(), hidden(parts[at], kOld), parts, at);
  }
}

// A directory that exists, locked against other commands of this kind.
struct Folder {
  io::FileDescriptor descriptor;
  std::size_t depth = 0;  // number of components
};

Folder deepest_folder(const Tree& tree, const Parts& parts) {
  for (std::size_t depth = parts.size() - 1;; --depth) {
    Folder folder{tree.open(joined(parts, depth), O_RDONLY | O_DIRECTORY), depth};
    if (!folder.descriptor.valid()) {
      if (errno == ENOENT && depth > 0) continue;
      throw file_error(tree.shown(joined(parts, depth)), errno);
    }
    while (flock(folder.descriptor.get(), LOCK_EX) != 0) {
      if (errno != EINTR) throw file_error(tree.shown(joined(parts, depth)), errno);
    }
    return folder;
  }
}

void write_all(int file, std::string_view text, const std::string& shown) {
  while (!text.empty()) {
    const ssize_t size = ::write(file, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) throw file_error(shown, errno);
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

void write_new(int folder, const std::string& name, std::string_view text, mode_t mode, const std::string& shown) {
  const io::FileDescriptor file{
      openat(folder, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
  if (!file.valid()) throw file_error(shown, errno);
  write_all(file.get(), text, shown);
  if (fchmod(file.get(), mode) != 0 || fsync(file.get()) != 0) throw file_error(shown, errno);
}

// Makes the directories parts[at..], the first of them by the name `name`, and the file in the last.
void build_chain(int folder, const std::string& name, const Parts& parts, std::size_t at, const OwnFile& file,
                 const std::string& text) {
  if (at + 1 == parts.size()) return write_new(folder, name, text, 0644, file.path);
  if (mkdirat(folder, name.c_str(), 0700) != 0) throw file_error(file.path, errno);
  const io::FileDescriptor below{openat(folder, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  if (!below.valid()) throw file_error(file.path, errno);
  if (!file.private_directories && fchmod(below.get(), 0755) != 0) throw file_error(file.path, errno);
  build_chain(below.get(), parts[at + 1], parts, at + 1, file, text);
}

// False: the name is taken meanwhile.
bool rename_new(int folder, const std::string& from, const std::string& to, const std::string& shown) {
  if (syscall(SYS_renameat2, folder, from.c_str(), folder, to.c_str(), RENAME_NOREPLACE) == 0) {
    (void)fsync(folder);
    return true;
  }
  if (errno == EEXIST) return false;
  throw file_error(shown, errno);
}

std::size_t shared_directories(const Parts& parts, std::size_t depth, const std::set<std::string>& claimed) {
  std::size_t count = 0;
  while (count < depth && claimed.contains(joined(parts, depth - count))) ++count;
  return count;
}

// False: another command came first.
bool try_put(const Tree& tree, const OwnFile& file, const Parts& parts, const std::set<std::string>& claimed) {
  const Folder folder = deepest_folder(tree, parts);
  sweep(tree, parts);
  const std::size_t made = parts.size() - 1 - folder.depth + shared_directories(parts, folder.depth, claimed);
  const std::string temporary = hidden(parts[folder.depth], kNew), shown = tree.shown(file.path);
  try {
    build_chain(folder.descriptor.get(), temporary, parts, folder.depth, file, whole_text(file, made));
    if (rename_new(folder.descriptor.get(), temporary, parts[folder.depth], shown)) return true;
  } catch (const EnableError&) {
    (void)clear_chain(folder.descriptor.get(), temporary, parts, folder.depth);
    throw;
  }
  (void)clear_chain(folder.descriptor.get(), temporary, parts, folder.depth);
  return false;
}

void replace_by_rename(const Tree& tree, const std::string& path, const std::string& text, int like) {
  const Parts parts = components_of(path);
  const Folder folder = deepest_folder(tree, parts);
  sweep(tree, parts);
  const std::string temporary = hidden(parts.back(), kNew), shown = tree.shown(path);
  try {
    write_new(folder.descriptor.get(), temporary, text, 0644, shown);
    if (like >= 0) copy_attributes(like, folder.descriptor.get(), temporary, shown);
    if (renameat(folder.descriptor.get(), temporary.c_str(), folder.descriptor.get(), parts.back().c_str()) != 0) {
      throw file_error(shown, errno);
    }
    (void)fsync(folder.descriptor.get());
  } catch (const EnableError&) {
    (void)unlinkat(folder.descriptor.get(), temporary.c_str(), 0);
    throw;
  }
}

// How many of the `made` directories around the file hold nothing but the way to it.
std::size_t removable_directories(const Tree& tree, const Parts& parts, std::size_t made) {
  std::size_t count = 0;
  while (count < made) {
    const std::size_t depth = parts.size() - 1 - count;
    if (tree.list(joined(parts, depth)) != Parts{parts[depth]}) return count;
    ++count;
  }
  return count;
}

}  // namespace

bool is_own(std::string_view text) { return text.starts_with(kMark); }

std::size_t directories_made(std::string_view text, const std::string& path) {
  if (!is_own(text) || !text.substr(kMark.size()).starts_with(kMade)) return 0;
  const std::string_view number = text.substr(kMark.size() + kMade.size());
  std::size_t made = 0;
  (void)std::from_chars(number.data(), number.data() + number.size(), made);
  return std::min(made, components_of(path).size() - 1);
}

std::set<std::string> claimed_by(std::string_view text, const std::string& path) {
  const Parts parts = components_of(path);
  std::set<std::string> claimed;
  for (std::size_t i = 0; i < directories_made(text, path); ++i) claimed.insert(joined(parts, parts.size() - 1 - i));
  return claimed;
}

void sweep_leftovers(const Tree& tree, const std::string& path) { sweep(tree, components_of(path)); }

bool put_own_file(const Tree& tree, const OwnFile& file, const std::set<std::string>& claimed) {
  const Parts parts = components_of(file.path);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::optional<std::string> present = tree.read(file.path);
    if (!present) {
      if (try_put(tree, file, parts, claimed)) return true;
      continue;
    }
    if (!is_own(*present)) {
      throw EnableError{tree.shown(file.path) + " is there already, and not of 'brdma enable': rename it first"};
    }
    const std::string text = whole_text(file, directories_made(*present, file.path));
    sweep(tree, parts);
    if (text == *present) return false;
    replace_by_rename(tree, file.path, text, tree.open(file.path, O_RDONLY).get());
    return true;
  }
  throw EnableError{tree.shown(file.path) + ": other commands change it all the time; try again"};
}

bool remove_own_file(const Tree& tree, const std::string& path) {
  const Parts parts = components_of(path);
  sweep(tree, parts);
  const std::optional<std::string> present = tree.read(path);
  if (!present) return false;
  if (!is_own(*present)) throw EnableError{tree.shown(path) + " is not of 'brdma enable', and is left as it is"};
  const std::size_t count = removable_directories(tree, parts, directories_made(*present, path));
  const std::size_t at = parts.size() - 1 - count;
  const io::FileDescriptor folder = tree.open(joined(parts, at), O_RDONLY | O_DIRECTORY);
  if (!folder.valid()) throw file_error(tree.shown(joined(parts, at)), errno);
  const std::string temporary = hidden(parts[at], kOld);
  if (renameat(folder.get(), parts[at].c_str(), folder.get(), temporary.c_str()) != 0) {
    throw file_error(tree.shown(path), errno);
  }
  if (!clear_chain(folder.get(), temporary, parts, at)) {  // a file came into it meanwhile
    (void)rename_new(folder.get(), temporary, parts[at], tree.shown(path));
  }
  (void)fsync(folder.get());
  return true;
}

void replace_shared_file(const Tree& tree, const std::string& path, const std::optional<std::string>& before,
                         const std::optional<std::string>& after) {
  const Parts parts = components_of(path);
  const io::FileDescriptor folder = tree.open(joined(parts, parts.size() - 1), O_RDONLY | O_DIRECTORY);
  if (!folder.valid()) throw file_error(tree.shown(joined(parts, parts.size() - 1)), errno);
  struct stat status {};
  if (fstatat(folder.get(), parts.back().c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && !S_ISREG(status.st_mode)) {
    throw EnableError{tree.shown(path) + " is a symbolic link or no regular file: change its target by hand"};
  }
  if (tree.read(path) != before) throw EnableError{tree.shown(path) + " has changed meanwhile: try again"};
  if (after) {
    const io::FileDescriptor like = tree.open(path, O_RDONLY);
    return replace_by_rename(tree, path, *after, like.get());
  }
  sweep(tree, parts);
  if (before && unlinkat(folder.get(), parts.back().c_str(), 0) != 0) throw file_error(tree.shown(path), errno);
  (void)fsync(folder.get());
}

}  // namespace brdma::enable
