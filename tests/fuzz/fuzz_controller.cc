// Messages of a member or a controller, as bytes: accepted or refused, never a crash; an accepted one is the same when
// it is written and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "controller-session/messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace brdma::session;
  const Parsed parsed = parse_message({reinterpret_cast<const char*>(data), size});
  if (!parsed.ok) {
    BRDMA_CHECK(!parsed.error.empty());
    return 0;
  }
  const std::string text = message_text(parsed.message);
  const Parsed again = parse_message(text);
  BRDMA_CHECK(again.ok && message_text(again.message) == text);
  return 0;
}
