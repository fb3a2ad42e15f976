// device/queue_table.h - the completion queues and shared receive queues of an engine. They outlive its queue pairs.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "qp/queues/completion_queue.h"
#include "qp/queues/shared_receive_queue.h"

namespace brdma::device {

class QueueTable {
 public:
  CompletionQueue* add(std::unique_ptr<CompletionQueue> cq) {
    completion_queues_.push_back(std::move(cq));
    return completion_queues_.back().get();
  }
  // With moderation: its notification may have a deadline.
  void set_moderated(CompletionQueue* cq, bool moderated) {
    std::erase(moderated_, cq);
    if (moderated) moderated_.push_back(cq);
  }
  [[nodiscard]] const std::vector<CompletionQueue*>& moderated() const { return moderated_; }
  [[nodiscard]] std::optional<Instant> next_notification() const {
    std::optional<Instant> first;
    for (const CompletionQueue* cq : moderated_) {
      const auto due = cq->deadline();
      if (due && (!first || *due < *first)) first = due;
    }
    return first;
  }
  SharedReceiveQueue* add(std::unique_ptr<SharedReceiveQueue> srq) {
    srq->place = shared_receive_queues_.size();
    shared_receive_queues_.push_back(std::move(srq));
    return shared_receive_queues_.back().get();
  }
  [[nodiscard]] bool has(const SharedReceiveQueue* srq) const {
    return srq->place < shared_receive_queues_.size() && shared_receive_queues_[srq->place].get() == srq;
  }
  // Destroys it. False: not one of ours.
  bool remove(const CompletionQueue* cq) {
    const auto at = std::find_if(completion_queues_.begin(), completion_queues_.end(),
                                 [cq](const auto& each) { return each.get() == cq; });
    if (at == completion_queues_.end()) return false;
    set_moderated(at->get(), false);
    completion_queues_.erase(at);
    return true;
  }
  void remove(const SharedReceiveQueue* srq) {
    auto& all = shared_receive_queues_;
    const std::size_t place = srq->place;
    std::swap(all[place], all.back());
    all[place]->place = place;
    all.pop_back();
  }
  [[nodiscard]] const std::vector<std::unique_ptr<CompletionQueue>>& completion_queues() const {
    return completion_queues_;
  }
  [[nodiscard]] const std::vector<std::unique_ptr<SharedReceiveQueue>>& shared_receive_queues() const {
    return shared_receive_queues_;
  }

 private:
  std::vector<std::unique_ptr<CompletionQueue>> completion_queues_;
  std::vector<CompletionQueue*> moderated_;                                 // few: each is looked at in each round
  std::vector<std::unique_ptr<SharedReceiveQueue>> shared_receive_queues_;  // each knows its index
};

}  // namespace brdma::device
