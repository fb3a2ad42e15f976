// view/show_request.h - the words of `OBJECT show [DEV]` and brdmad's plain answers, for objects that list devices.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "objects.h"

namespace brdma {

inline constexpr int kPort = 1;  // every device has one

struct ShowFilter {
  std::string device;  // empty: all
  [[nodiscard]] bool matches(const std::string& name) const { return device.empty() || device == name; }
};
// "[show] [[dev|link] NAME[/PORT]]" with options; throws UsageError for anything else.
[[nodiscard]] ShowFilter parse_show(Invocation& invocation, std::string_view object);
// Takes "show" if it is the next word.
void take_show(Words& words);
// Takes "[show] WHAT [show]" at the front.
[[nodiscard]] bool takes_show_of(Invocation& invocation, std::string_view what);

// brdmad's answer; nothing if none runs here, which is reported on standard error.
[[nodiscard]] std::optional<Json> ask_daemon(const char* query);

}  // namespace brdma
