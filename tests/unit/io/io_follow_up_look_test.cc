// The look behind a packet, as a transcript in virtual time. Rows are the time, the event, and the decision:
//   "looks"       the socket is looked at; the event says what is found
//   "leaves out"  it is not
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "io/poll/follow_up_look.h"
#include "timed_script.h"

namespace brdma::io {
namespace {

constexpr Duration kAge = 10_us;

struct Script : TimedScript<Script> {
  FollowUpLook look;
};
using Event = Script::Event;

// A packet that arrived then was taken.
Event packet_of(Duration arrived) {
  return [arrived](Script& script, Instant now) {
    script.look.on_packet(kBegin + arrived, true, now);
    return "";
  };
}
// Others may have been behind it.
Event packet_before_others() {
  return [](Script& script, Instant now) {
    script.look.on_packet(now, false, now);
    return "";
  };
}
Event packet_of_unknown_age() {
  return [](Script& script, Instant now) {
    script.look.on_packet(Instant{}, true, now);
    return "";
  };
}
Event look(bool finds) {
  return [finds](Script& script, Instant now) {
    if (script.look.leaves_out(now, kAge)) return "leaves out";
    script.look.on_look(finds);
    return "looks";
  };
}
constexpr bool kNothing = false, kSomething = true;

// So many packets, each with an empty look behind it, one a microsecond.
Script after_empty_looks(unsigned count) {
  Script script;
  for (unsigned i = 0; i < count; ++i) {
    script.look.on_packet(kBegin - 1_ms, true, kBegin - 1_ms);
    EXPECT_FALSE(script.look.leaves_out(kBegin - 1_ms, kAge));
    script.look.on_look(kNothing);
  }
  return script;
}

TEST(FollowUpLook, IsMadeUntilSomeInARowWereEmpty) {
  Script one_less = after_empty_looks(FollowUpLook::kEmptyMin - 1);
  one_less.run({{0_us, packet_of(0_us), ""}, {1_us, look(kNothing), "looks"}});
  Script enough = after_empty_looks(FollowUpLook::kEmptyMin);
  enough.run({{0_us, packet_of(0_us), ""}, {1_us, look(kNothing), "leaves out"}});
}

TEST(FollowUpLook, OneThatFindsSomethingBeginsAgain) {
  Script script = after_empty_looks(FollowUpLook::kEmptyMin - 1);
  script.run({{0_us, packet_of(0_us), ""},
              {1_us, look(kSomething), "looks"},
              {2_us, packet_of(1_us), ""},
              {3_us, look(kNothing), "looks"},
              {4_us, packet_of(4_us), ""},
              {5_us, look(kNothing), "looks"}});
}

// The program may learn that its peer has gone, and poll once more.
TEST(FollowUpLook, OfTwoInARowOneIsMade) {
  Script script = after_empty_looks(FollowUpLook::kEmptyMin);
  script.run({{0_us, packet_of(0_us), ""},
              {1_us, look(kNothing), "leaves out"},
              {2_us, look(kNothing), "looks"},
              {3_us, look(kNothing), "looks"},
              {4_us, packet_of(4_us), ""},
              {5_us, look(kNothing), "leaves out"}});
}

// What the peer has sent before it went is there.
TEST(FollowUpLook, IsMadeWhereOthersMayBeBehindThePacket) {
  Script script = after_empty_looks(FollowUpLook::kEmptyMin);
  script.run({{0_us, packet_before_others(), ""},
              {1_us, look(kNothing), "looks"},
              {2_us, packet_of(2_us), ""},
              {3_us, look(kNothing), "leaves out"}});
}

TEST(FollowUpLook, IsMadeWhereThePacketIsOld) {
  Script script = after_empty_looks(FollowUpLook::kEmptyMin);
  script.run({{0_us, packet_of(0_us), ""}, {10'001_ns, look(kNothing), "looks"}});
  script.run({{20_us, packet_of(20_us), ""}, {30_us, look(kNothing), "leaves out"}});
}

// It would have found a packet: the program was woken once more for it.
TEST(FollowUpLook, IsMadeAgainAfterAPacketThatItWouldHaveFound) {
  Script script = after_empty_looks(FollowUpLook::kEmptyMin);
  script.run({{0_us, packet_of(0_us), ""},
              {2_us, look(kNothing), "leaves out"},
              {3_us, packet_of(2001_ns), ""},  // arrived later
              {4_us, look(kNothing), "leaves out"},
              {5_us, packet_of(4_us), ""},  // was there
              {6_us, look(kNothing), "looks"}});
}

TEST(FollowUpLook, APacketOfUnknownAgeMayHaveBeenThere) {
  Script script = after_empty_looks(FollowUpLook::kEmptyMin);
  script.run({{0_us, packet_of(0_us), ""},
              {2_us, look(kNothing), "leaves out"},
              {3_us, packet_of_unknown_age(), ""},
              {4_us, look(kNothing), "looks"}});
}

}  // namespace
}  // namespace brdma::io
