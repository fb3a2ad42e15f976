// management.h - shared by commands that query running processes: filters, the query to brdmad, its answers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "objects.h"

namespace brdma {

// Behind a command: "dev NAME" or "link NAME[/1]", and "qp N" or "lqpn N" (0x... too).
struct Target {
  std::string device;  // empty: all
  std::optional<std::uint32_t> qp;
};
// Takes options of style, then the command of an object. Its index in `commands`; 0: there is no word; -1: the next
// word is none of them.
[[nodiscard]] int take_command(Invocation& invocation, std::span<const std::string_view> commands);
// Takes one filter, or returns false and takes nothing.
bool take_target(Words& words, Target& target);

// Throws std::runtime_error, with the nearest name, if neither this network namespace has the device nor brdmad knows
// it.
void require_device(const std::string& name);
// The error or warning about a queue pair that no program has: "no queue pair 5: did you mean 6?"
[[nodiscard]] std::string no_queue_pair(std::uint32_t qp);
// Whether a program has it, as far as programs answer.
[[nodiscard]] bool has_queue_pair(std::uint32_t qp);

// Queries brdmad, which queries the processes. None: no brdmad runs here (reported on standard error). Checks the
// target's device first.
[[nodiscard]] std::optional<Json> ask_processes(Json question, const Target& target);

// An answer, and its heading: "dev NAME pid N comm C" in text, `ifname pid comm` in JSON.
struct ProcessAnswer {
  Record record;
  Json answer;
};
// Calls `take` for one answer after another. A program whose answer is an error, or of a form that `take` does not
// expect (it throws Json::exception), is named on standard error and counted in `failed`; the others continue. Any
// program may send any answer: `take` keeps nothing of one before it has read all of it.
void for_each_answer(const Json& reply, const OutputStyle& style, int& failed,
                     const std::function<void(ProcessAnswer& answer)>& take);

// Adds members of a program's answer to `fields`. What is there already stays as it is: a program does not replace the
// names under which brdma shows it. Throws Json::exception if `members` is no object.
void add_members(Json& fields, const Json& members);

}  // namespace brdma
