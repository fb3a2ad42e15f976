// management.h - what the commands share that ask running processes: filters, the question to brdmad, its answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "objects.h"

namespace brdma {

// Behind a command: "dev NAME" or "link NAME[/1]", and "qp N" or "lqpn N" (0x... too).
struct Target {
  std::string device;  // empty: all
  std::optional<std::uint32_t> qp;
};
// Takes one filter, or answers false and takes nothing.
bool take_target(Words& words, Target& target);

// Asks brdmad, which asks the processes. None: no brdmad runs here, which was said on standard error.
[[nodiscard]] std::optional<Json> ask_processes(Json question, const Target& target);

// Of each answer: "dev NAME pid N comm C" in text, `ifname pid comm` in JSON. Those that are errors go to standard
// error; `failed` counts them.
struct ProcessAnswer {
  Record record;
  Json answer;
};
[[nodiscard]] std::vector<ProcessAnswer> process_answers(const Json& reply, const OutputStyle& style, int& failed);
// Likewise one after another. Where `take` finds something else than it expects, which any program may have said, that
// program is named on standard error and counted in `failed`, and the others go on.
void for_each_answer(const Json& reply, const OutputStyle& style, int& failed,
                     const std::function<void(ProcessAnswer& answer)>& take);

}  // namespace brdma
