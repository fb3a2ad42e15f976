// enable/own_file.h - files that belong to `brdma enable` alone. Each is there whole or not at all, whenever the
// command is interrupted: a file gets its content under another name first, and missing directories are made around it
// there; one rename puts all in place. Taking it back is one rename too. What an interrupted command left
// (`.NAME.brdma-new`,
// `.NAME.brdma-old`) goes with the next command on that file.
//
//   line 1   # Written by 'brdma enable'; 'brdma disable' removes it. Do not edit.
//   line 2   # Directories made for it: N        the N directories around it, which end with it if nothing else is in
//   them then     the body
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include "enable/tree.h"

namespace brdma::enable {

struct OwnFile {
  std::string path;                  // absolute, inside the tree
  std::string body;                  // ends with a newline
  bool private_directories = false;  // directories made for it are for its user alone (below a home)
};

// Whether `text` is a file of this kind.
[[nodiscard]] bool is_own(std::string_view text);
// N of line 2, at most the number of directories around `path`; 0 where it cannot be read.
[[nodiscard]] std::size_t directories_made(std::string_view text, const std::string& path);
// The directories that were made for the file at `path`.
[[nodiscard]] std::set<std::string> claimed_by(std::string_view text, const std::string& path);

// Writes the file unless it is there already. `claimed`: directories made for other own files, which this one now
// shares. Returns false if nothing had to change. Throws EnableError: somebody else's file has that name, or the system
// refuses; then nothing has changed.
bool put_own_file(const Tree& tree, const OwnFile& file, const std::set<std::string>& claimed);
// Removes the file, and the directories made for it where nothing else is in them. Returns false if there was none.
// Throws EnableError: not ours, or the system refuses; then nothing has changed.
bool remove_own_file(const Tree& tree, const std::string& path);

// Removes what an interrupted command has left of the file at `path`, under hidden names; nothing else.
void sweep_leftovers(const Tree& tree, const std::string& path);

// Replaces or makes a file that others write too; without `after` it is removed. Keeps its user, group, mode and
// attributes. Throws EnableError; also if the file is no longer `before`, which the caller has read.
void replace_shared_file(const Tree& tree, const std::string& path, const std::optional<std::string>& before,
                         const std::optional<std::string>& after);

}  // namespace brdma::enable
