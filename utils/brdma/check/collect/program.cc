// The file that a program's name stands for: how it is loaded.

#include <elf.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>

#include "check/collect/collect.h"
#include "programs.h"

namespace brdma::check {
namespace {

constexpr std::size_t kSegmentsMax = 128;

// Only 64-bit files of this machine are looked into: any other one cannot load the library.
bool is_of_this_machine(const Elf64_Ehdr& header) {
  Elf64_Ehdr own{};
  std::ifstream self{"/proc/self/exe", std::ios::binary};
  self.read(reinterpret_cast<char*>(&own), sizeof own);
  const bool known = static_cast<bool>(self);
  return header.e_ident[EI_CLASS] == ELFCLASS64 && (!known || header.e_machine == own.e_machine);
}

// A static program names no loader (PT_INTERP); a static one with position-independent code has PT_DYNAMIC.
bool names_loader(std::ifstream& file, const Elf64_Ehdr& header) {
  for (std::size_t i = 0; i < header.e_phnum && i < kSegmentsMax; ++i) {
    Elf64_Phdr segment{};
    file.seekg(static_cast<std::streamoff>(header.e_phoff + i * sizeof segment));
    file.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (!file) return true;  // cut short: the kernel's message is better than ours
    if (segment.p_type == PT_INTERP) return true;
  }
  return false;
}

std::string interpreter_of(std::ifstream& file) {
  std::string line;
  file.seekg(2);
  std::getline(file, line);
  const std::size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos || line.size() > 4096) return {};
  return line.substr(begin, line.find_first_of(" \t\r", begin) - begin);
}

// What the file itself shows; of a script the path of its interpreter.
void read_file(Program& program, const std::string& path) {
  std::ifstream file{path, std::ios::binary};
  std::array<char, sizeof(Elf64_Ehdr)> bytes{};
  file.read(bytes.data(), bytes.size());
  program.readable = file.gcount() > 0;
  if (file.gcount() > 2 && bytes[0] == '#' && bytes[1] == '!') {
    file.clear();
    program.interpreter = interpreter_of(file);
    return;
  }
  program.is_elf =
      file.gcount() == static_cast<std::streamsize>(bytes.size()) && std::memcmp(bytes.data(), ELFMAG, SELFMAG) == 0;
  if (!program.is_elf) return;
  Elf64_Ehdr header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  program.other_machine = !is_of_this_machine(header);
  program.is_static = !program.other_machine && !names_loader(file, header);
}

}  // namespace

Program collect_program(const std::string& name) {
  Program program;
  program.name = name;
  program.path = find_in_path(name);
  if (program.path.empty() || ::access(program.path.c_str(), X_OK) != 0) {
    program.path.clear();
    return program;
  }
  read_file(program, program.path);
  if (!program.interpreter.empty()) {
    const std::string script = program.interpreter;
    read_file(program, script);  // one step: an interpreter that is a script itself is rare
    program.interpreter = script;
  }
  struct stat info {};
  if (::stat(program.path.c_str(), &info) == 0) program.changes_user = (info.st_mode & (S_ISUID | S_ISGID)) != 0;
  program.has_capabilities = ::getxattr(program.path.c_str(), "security.capability", nullptr, 0) > 0;
  return program;
}

}  // namespace brdma::check
