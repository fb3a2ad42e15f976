// tests design RR-2, RR-4. Regular commands before large ones, and none starves.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "registry/command_queues.h"

namespace brdma::registry {
namespace {

struct Member {
  char name = ' ';
  Member* ready_next = nullptr;
  Member* ready_previous = nullptr;
  ReadyQueue ready_queue = ReadyQueue::kNone;
};

// Serves `turns` turns; each member comes again in its class, like one with more to send.
std::string serve(CommandQueues<Member>& queues, int turns) {
  std::string order;
  for (int i = 0; i < turns; ++i) {
    Member* const member = queues.front();
    if (member == nullptr) break;
    const bool large = member->ready_queue == ReadyQueue::kLarge;
    queues.remove(member);
    queues.turn_taken(large);
    queues.push_back(member, large);
    order += member->name;
  }
  return order;
}

TEST(CommandQueues, InTurnWithinAClass) {
  CommandQueues<Member> queues(4);
  Member a{'a'}, b{'b'}, c{'c'};
  for (Member* member : {&a, &b, &c}) queues.push_back(member, true);
  queues.push_back(&b, true);  // listed already: keeps its place
  EXPECT_EQ(serve(queues, 7), "abcabca");
}

TEST(CommandQueues, RegularFirstAndLargeAfterSoMany) {
  CommandQueues<Member> queues(3);
  Member large{'L'}, other{'M'}, small{'s'};
  queues.push_back(&large, true);
  queues.push_back(&other, true);
  queues.push_back(&small, false);
  EXPECT_EQ(serve(queues, 12), "sssLsssMsssL");
  queues.remove(&small);
  EXPECT_EQ(serve(queues, 3), "MLM");
  queues.push_back(&small, false);  // comes while large ones are in flight: next
  EXPECT_EQ(serve(queues, 1), "s");
}

TEST(CommandQueues, ClassMayChange) {
  CommandQueues<Member> queues(3);
  Member a{'a'}, b{'b'};
  queues.push_back(&a, true);
  queues.push_back(&b, true);
  queues.push_back(&b, false);
  EXPECT_EQ(queues.front(), &b);
  queues.remove(&b);
  queues.remove(&b);
  EXPECT_EQ(queues.front(), &a);
  queues.remove(&a);
  EXPECT_EQ(queues.front(), nullptr);
}

}  // namespace
}  // namespace brdma::registry
