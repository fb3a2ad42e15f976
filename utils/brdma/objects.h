// objects.h - the objects of the command line, each a function: takes the words behind its name, returns an exit code.
// Throws UsageError for misuse, other std::exception for failure.
#pragma once

#include "output.h"
#include "words.h"

namespace brdma {

struct Invocation {
  Words words;
  OutputStyle style;
};

[[nodiscard]] int dev_object(Invocation& invocation);
[[nodiscard]] int link_object(Invocation& invocation);
[[nodiscard]] int resource_object(Invocation& invocation);
[[nodiscard]] int statistic_object(Invocation& invocation);
[[nodiscard]] int system_object(Invocation& invocation);
[[nodiscard]] int recovery_object(Invocation& invocation);
[[nodiscard]] int congestion_object(Invocation& invocation);
[[nodiscard]] int managed_object(Invocation& invocation);
[[nodiscard]] int controller_object(Invocation& invocation);
[[nodiscard]] int event_object(Invocation& invocation);
[[nodiscard]] int alarm_object(Invocation& invocation);
[[nodiscard]] int check_object(Invocation& invocation);
[[nodiscard]] int sysdump_object(Invocation& invocation);
[[nodiscard]] int metrics_object(Invocation& invocation);
[[nodiscard]] int run_object(Invocation& invocation);
[[nodiscard]] int perf_object(Invocation& invocation);
[[nodiscard]] int sim_object(Invocation& invocation);
[[nodiscard]] int env_object(Invocation& invocation);
[[nodiscard]] int enable_object(Invocation& invocation);
[[nodiscard]] int disable_object(Invocation& invocation);
[[nodiscard]] int lab_object(Invocation& invocation);
[[nodiscard]] int top_object(Invocation& invocation);
[[nodiscard]] int completion_object(Invocation& invocation);
[[nodiscard]] int manual_object(Invocation& invocation);
[[nodiscard]] int help_object(Invocation& invocation);

// Takes -j, -p, -d, -dd, -o KEY,KEY if the next word is one of them.
bool take_style_option(Words& words, OutputStyle& style);
// Takes each of them that comes next.
void take_style_options(Words& words, OutputStyle& style);

}  // namespace brdma
