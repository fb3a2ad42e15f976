// Findings about a program that is to run: `brdma check -- PROGRAM`.

#include "check/finding.h"

namespace brdma::check {

Found find_program_missing(const Facts& facts) {
  if (!facts.program || (!facts.program->path.empty() && facts.program->readable)) return std::nullopt;
  const Program& program = *facts.program;
  const bool there = !program.path.empty();
  return Finding{"program_missing", Severity::kError,
                 there ? program.path + " cannot be read, so how it is loaded is not known"
                       : program.name + " is not in PATH, or not executable",
                 there ? "run the check as a user who may read it" : "name its path"};
}

Found find_program_static(const Facts& facts) {
  if (!facts.program || !facts.program->is_static) return std::nullopt;
  return Finding{"program_static", Severity::kError,
                 facts.program->path + " is linked statically: no library can be loaded into it, so it sees no device",
                 "link it dynamically with libibverbs (Go: with cgo)"};
}

Found find_program_privileged(const Facts& facts) {
  if (!facts.program || (!facts.program->changes_user && !facts.program->has_capabilities)) return std::nullopt;
  return Finding{"program_privileged", Severity::kError,
                 facts.program->path +
                     (facts.program->changes_user ? " is set-user-ID or set-group-ID" : " has file capabilities") +
                     ": the loader drops LD_PRELOAD there, and it sees no device",
                 "run a copy without them, or, as root, 'brdma run --namespace'"};
}

Found find_program_architecture(const Facts& facts) {
  if (!facts.program || !facts.program->other_machine) return std::nullopt;
  return Finding{"program_architecture", Severity::kError,
                 facts.program->path + " is built for another processor or word size than libbitmaprdma.so",
                 "build this library for that architecture too, or the program for this one"};
}

}  // namespace brdma::check
