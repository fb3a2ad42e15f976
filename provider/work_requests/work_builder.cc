#include "work_requests/work_builder.h"

#include <algorithm>
#include <cerrno>

#include "memory/guard.h"
#include "qp/state/limits.h"

namespace brdma::provider {
namespace {

constexpr unsigned kFlagsKnown = kSendFence | kSendSignaled | kSendSolicited;

}  // namespace

WorkBuilder::WorkBuilder(const QpCapabilities& capabilities, std::uint64_t operations)
    : capabilities_(capabilities), operations_(operations) {}

void WorkBuilder::start() {
  mutex_.lock();
  requests_.clear();
  sge_counts_.clear();
  sges_.clear();
  inline_.clear();
  error_ = 0;
  data_set_ = true;
}

void WorkBuilder::finish() { mutex_.unlock(); }

void WorkBuilder::refuse(int error) {
  if (error_ == 0) error_ = error;
}

SendRequest& WorkBuilder::begin(std::uint64_t operation, WorkOpcode opcode, std::uint64_t wr_id, unsigned flags) {
  // The way of setting the data makes a request inline, not a flag.
  flags &= ~kSendInline;
  if ((operations_ & operation) == 0 || (flags & ~kFlagsKnown) != 0) refuse(EINVAL);
  if (requests_.size() >= capabilities_.send_wr_max) refuse(ENOMEM);
  data_set_ = false;
  if (error_ != 0) return nowhere_ = SendRequest{};
  SendRequest& request = requests_.emplace_back();
  sge_counts_.push_back(0);
  request.wr_id = wr_id;
  request.opcode = opcode;
  request.flags = flags;
  return request;
}

// Once for each request.
bool WorkBuilder::data_allowed() {
  if (data_set_) refuse(EINVAL);
  data_set_ = true;
  return error_ == 0;
}

void WorkBuilder::set_sges(std::span<const Sge> sges) {
  if (sges.size() > capabilities_.send_sge_max) refuse(EINVAL);
  if (!data_allowed()) return;
  sges_.insert(sges_.end(), sges.begin(), sges.end());
  sge_counts_.back() = static_cast<std::uint16_t>(sges.size());
}

void WorkBuilder::set_inline(std::span<const ibv_data_buf> pieces) {
  std::size_t bytes = 0;
  for (const ibv_data_buf& piece : pieces) bytes += std::min<std::size_t>(piece.length, qp::kMessageBytesMax);
  if (bytes > capabilities_.inline_bytes_max) refuse(EINVAL);
  if (!data_allowed()) return;
  requests_.back().flags |= kSendInline;  // the engine refuses it for requests without data
  for (const ibv_data_buf& piece : pieces) {
    const std::size_t before = inline_.size();
    inline_.resize(before + piece.length);
    if (!memory::copy(inline_.data() + before, static_cast<const std::byte*>(piece.addr), piece.length)) {
      inline_.resize(before);
      return refuse(EFAULT);
    }
  }
  sges_.push_back({.address = 0, .length = static_cast<std::uint32_t>(bytes), .lkey = 0});
  sge_counts_.back() = 1;
}

void WorkBuilder::set_destination(const AddressHandle& address, std::uint32_t qpn, std::uint32_t qkey) {
  if (requests_.empty()) refuse(EINVAL);
  if (error_ != 0) return;
  requests_.back().address = &address;
  requests_.back().remote_qpn = qpn;
  requests_.back().remote_qkey = qkey;
}

void WorkBuilder::set_shared_queue(std::uint32_t number) {
  if (requests_.empty()) refuse(EINVAL);
  if (error_ == 0) requests_.back().remote_qpn = number;
}

// Sets the pointers only now, because the arrays could move while requests were added. They are in the requests' order.
std::span<const SendRequest> WorkBuilder::take() {
  Sge* sge = sges_.data();
  const std::byte* copied = inline_.data();
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    SendRequest& request = requests_[i];
    request.sges = {sge, sge_counts_[i]};
    if ((request.flags & kSendInline) != 0) {
      sge->address = reinterpret_cast<std::uintptr_t>(copied);
      copied += sge->length;
    }
    sge += sge_counts_[i];
  }
  return requests_;
}

}  // namespace brdma::provider
