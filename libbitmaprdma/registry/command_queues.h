// registry/command_queues.h - transmission order (design RR-2, RR-4): members whose next output belongs to a
// regular command, and members inside a large one. Regular ones go first, so that a small command waits for one segment
// of a large one at most, however many there are. After `regular_turns` of them in a row while large ones wait, a large
// one has its turn: no starvation. Within a class: in turn. Links lie in the members (`ready_next`, `ready_previous`,
// `ready_queue`): no allocation, everything constant time.
#pragma once

#include <cstdint>

namespace brdma::registry {

enum class ReadyQueue : std::uint8_t { kNone, kRegular, kLarge };

template <class Member>
class CommandQueues {
 public:
  explicit CommandQueues(std::uint32_t regular_turns) : regular_turns_(regular_turns) {}

  void set_regular_turns(std::uint32_t regular_turns) { regular_turns_ = regular_turns; }
  // A listed member stays where it is, unless its class has changed.
  void push_back(Member* member, bool large) {
    const ReadyQueue wanted = large ? ReadyQueue::kLarge : ReadyQueue::kRegular;
    if (member->ready_queue == wanted) return;
    remove(member);
    member->ready_queue = wanted;
    List& list = of(wanted);
    member->ready_previous = list.last;
    member->ready_next = nullptr;
    (list.last != nullptr ? list.last->ready_next : list.first) = member;
    list.last = member;
  }
  // Its turn is not over: it is next again, if its class is the same. Not listed.
  void push_front(Member* member, bool large) {
    const ReadyQueue wanted = large ? ReadyQueue::kLarge : ReadyQueue::kRegular;
    member->ready_queue = wanted;
    List& list = of(wanted);
    member->ready_previous = nullptr;
    member->ready_next = list.first;
    (list.first != nullptr ? list.first->ready_previous : list.last) = member;
    list.first = member;
  }
  void remove(Member* member) {
    if (member->ready_queue == ReadyQueue::kNone) return;
    List& list = of(member->ready_queue);
    (member->ready_previous != nullptr ? member->ready_previous->ready_next : list.first) = member->ready_next;
    (member->ready_next != nullptr ? member->ready_next->ready_previous : list.last) = member->ready_previous;
    member->ready_queue = ReadyQueue::kNone;
  }
  // The next member; null: none. Changes nothing.
  [[nodiscard]] Member* front() const {
    if (regular_.first == nullptr) return large_.first;
    if (large_.first == nullptr || taken_ < regular_turns_) return regular_.first;
    return large_.first;
  }
  // Of all listed members, regular ones first, until one holds.
  template <class Predicate>
  [[nodiscard]] bool any_of(Predicate&& holds) const {
    for (const Member* first : {regular_.first, large_.first}) {
      for (const Member* member = first; member != nullptr; member = member->ready_next) {
        if (holds(member)) return true;
      }
    }
    return false;
  }
  // The member had a turn and sent: counts against its class. `large` as it was when the turn began.
  void turn_taken(bool large) {
    if (large || large_.first == nullptr) {
      taken_ = 0;
    } else {
      ++taken_;
    }
  }

 private:
  struct List {
    Member* first = nullptr;
    Member* last = nullptr;
  };
  [[nodiscard]] List& of(ReadyQueue queue) { return queue == ReadyQueue::kLarge ? large_ : regular_; }

  List regular_, large_;
  std::uint32_t regular_turns_;
  std::uint32_t taken_ = 0;  // turns of regular ones in a row while large ones waited
};

}  // namespace brdma::registry
