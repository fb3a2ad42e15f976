#include "support/traffic.h"

#include <algorithm>
#include <cstring>

namespace brdma::test {
namespace {

bool overlap(const Buffer& a, const Buffer& b) {
  return a.offset < b.offset + b.length && b.offset < a.offset + a.length;
}

// Stands for "the last byte lies one beyond the region", whose size is unknown until all is planned.
constexpr std::size_t kBeyondRegion = Operation::kBeyondRegion;

class Planner {
 public:
  Planner(const TrafficConfig& config, Random& random, Arena& local, Arena& remote)
      : config_(config), random_(random), local_(local), remote_(remote) {
    const auto target_bytes = static_cast<std::uint32_t>(
        64 + random.below(std::min<std::uint64_t>(config.operation_bytes_max + 8192, config.bytes_max)));
    target_ = remote.allocate(target_bytes, 8);
  }

  Traffic plan() {
    const std::uint64_t count = 1 + random_.below(config_.operations_max);
    std::uint32_t unsignaled = 0;
    const auto signal_every = static_cast<std::uint32_t>(1 + random_.below(config_.signal_every_max));
    for (std::uint64_t i = 0; i < count && traffic_.bytes < config_.bytes_max; ++i) {
      Operation operation = draw();
      if (operation.consumes_receive()) plan_receive(operation);
      apply(operation);
      const bool last = i + 1 == count || traffic_.bytes >= config_.bytes_max;
      if (last || ++unsignaled >= signal_every || random_.below(4) == 0) {
        operation.flags |= kSendSignaled;
        unsignaled = 0;
      }
      if (random_.below(8) == 0) operation.flags |= kSendSolicited;
      traffic_.operations.push_back(operation);
    }
    if (config_.ends_in_error) plan_error();
    return std::move(traffic_);
  }

 private:
  WorkOpcode draw_opcode() {
    for (;;) {
      switch (random_.below(10)) {
        case 0:
        case 1:
          if (config_.sends) return WorkOpcode::kSend;
          break;
        case 2:
          if (config_.sends) return WorkOpcode::kSendWithImm;
          break;
        case 3:
        case 4:
        default:
          if (config_.writes) return WorkOpcode::kRdmaWrite;
          break;
        case 5:
          if (config_.writes) return WorkOpcode::kRdmaWriteWithImm;
          break;
        case 6:
        case 7:
          if (config_.reads) return WorkOpcode::kRdmaRead;
          break;
        case 8:
          if (config_.atomics) return WorkOpcode::kAtomicFetchAdd;
          break;
        case 9:
          if (config_.atomics) return WorkOpcode::kAtomicCmpSwap;
          break;
      }
    }
  }

  std::uint32_t draw_length() {
    const std::uint64_t most = config_.operation_bytes_max;
    const std::uint64_t mtu = config_.mtu;
    std::uint64_t length = 0;
    switch (random_.below(8)) {
      case 0:
        length = random_.below(3);
        break;
      case 1:
      case 2:
        length = random_.below(200);
        break;
      case 3:
      case 4:  // around whole packets
        length = mtu * (1 + random_.below(6)) + random_.below(3) - 1;
        break;
      case 5:
      case 6:
        length = random_.below(20'000);
        break;
      case 7:
        length = random_.below(3) == 0 ? random_.below(most + 1) : random_.below(60'000);
        break;
    }
    return static_cast<std::uint32_t>(std::min(length, most));
  }

  std::vector<Buffer> draw_buffers(Arena& arena, std::uint32_t length) {
    std::vector<Buffer> buffers;
    const auto pieces = static_cast<std::uint32_t>(1 + random_.below(config_.sges_max));
    std::uint32_t left = length;
    for (std::uint32_t i = 1; i < pieces && left > 1; ++i) {
      const auto piece = static_cast<std::uint32_t>(1 + random_.below(left - 1));
      buffers.push_back(arena.allocate(piece));
      left -= piece;
    }
    if (left > 0) buffers.push_back(arena.allocate(left));
    return buffers;
  }

  Operation draw() {
    Operation operation;
    operation.opcode = draw_opcode();
    operation.length = operation.is_atomic() ? 8 : draw_length();
    operation.immediate_be = static_cast<std::uint32_t>(random_.next());
    if (!operation.is_send()) {
      operation.length = std::min(operation.length, target_.length);
      const std::uint64_t room = target_.length - operation.length;
      std::size_t offset = target_.offset + random_.below(room + 1);
      if (operation.is_atomic()) offset = target_.offset + random_.below(room / 8 + 1) * 8;
      operation.remote = {offset, operation.length};
      // Some WRITEs have a place of their own, where the test watches their last byte.
      if (operation.is_write() && random_.below(3) == 0) operation.remote = remote_.allocate(operation.length);
    }
    operation.local =
        operation.is_atomic() ? std::vector{local_.allocate(8, 8)} : draw_buffers(local_, operation.length);
    const bool may_be_inline = operation.is_send() || operation.is_write();
    if (may_be_inline && operation.length <= config_.inline_bytes_max && random_.below(2) == 0) {
      operation.flags |= kSendInline;
    }
    set_fence(operation);
    note_overlaps(operation);
    traffic_.bytes += operation.length;
    return operation;
  }

  void set_fence(Operation& operation) {
    const bool after_read = std::any_of(unfenced_reads_.begin(), unfenced_reads_.end(), [&](const Buffer& range) {
      return operation.changes_remote() && overlap(range, operation.remote);
    });
    const bool after_atomic = std::any_of(unfenced_atomics_.begin(), unfenced_atomics_.end(), [&](const Buffer& range) {
      return operation.is_write() && overlap(range, operation.remote);
    });
    if (after_read || after_atomic || random_.below(16) == 0) {
      operation.flags |= kSendFence;
      unfenced_reads_.clear();
      unfenced_atomics_.clear();
    }
    if (operation.opcode == WorkOpcode::kRdmaRead) unfenced_reads_.push_back(operation.remote);
    if (operation.is_atomic()) unfenced_atomics_.push_back(operation.remote);
  }

  void note_overlaps(Operation& operation) {
    if (!operation.changes_remote()) return;
    for (Operation& earlier : traffic_.operations) {
      if (!earlier.changes_remote() || !overlap(earlier.remote, operation.remote)) continue;
      earlier.overwritten = true;
      earlier.alone = operation.alone = false;
    }
  }

  void plan_error() {
    plan_flushed_receive(64);
    plan_flushed_receive(100);
    Operation refused;
    refused.local = {local_.allocate(64)};
    refused.length = 64;
    refused.remote = {target_.offset, 64};
    refused.flags = kSendFence;
    refused.expected = CompletionStatus::kRemoteAccessError;
    refused.alone = false;
    switch (random_.below(5)) {
      case 0:
        refused.opcode = WorkOpcode::kRdmaWrite;
        refused.rkey_error = 1 + static_cast<std::uint32_t>(random_.below(0xFFFF'FFFF));
        break;
      case 1:
        refused.opcode = WorkOpcode::kRdmaRead;
        refused.rkey_error = 1;
        break;
      case 2:  // ends one byte beyond the region
        refused.opcode = random_.below(2) == 0 ? WorkOpcode::kRdmaWrite : WorkOpcode::kRdmaRead;
        refused.remote = {kBeyondRegion, 64};
        break;
      case 3:
        refused.opcode = WorkOpcode::kAtomicFetchAdd;
        refused.local = {local_.allocate(8, 8)};
        refused.length = 8;
        refused.remote = {target_.offset + 1 + random_.below(7), 8};
        refused.expected = CompletionStatus::kRemoteInvalidRequest;
        break;
      case 4:  // longer than the receive that waits for it
        refused.opcode = WorkOpcode::kSend;
        refused.local = {local_.allocate(65)};
        refused.length = 65;
        refused.remote = {};
        refused.expected = CompletionStatus::kRemoteInvalidRequest;
        traffic_.receives[traffic_.receives.size() - 2].expected = CompletionStatus::kLocalLengthError;
        break;
    }
    traffic_.operations.push_back(refused);
    for (std::uint64_t left = random_.below(4); left > 0; --left) {
      Operation flushed;
      flushed.opcode = WorkOpcode::kRdmaRead;
      flushed.local = {local_.allocate(16)};
      flushed.length = 16;
      flushed.remote = {target_.offset, 16};
      flushed.flags = random_.below(2) == 0 ? kSendSignaled : 0;
      flushed.expected = CompletionStatus::kFlushed;
      traffic_.operations.push_back(flushed);
    }
  }

  void plan_flushed_receive(std::uint32_t length) {
    Receive receive;
    receive.local = {remote_.allocate(length)};
    receive.expected = CompletionStatus::kFlushed;
    traffic_.receives.push_back(receive);
  }

  void plan_receive(const Operation& operation) {
    Receive receive;
    receive.length = operation.length;
    receive.opcode = operation.is_send() ? CompletionOpcode::kReceive : CompletionOpcode::kReceiveRdmaWithImm;
    receive.has_immediate = operation.has_immediate();
    receive.immediate_be = operation.immediate_be;
    const std::uint32_t spare = random_.below(2) == 0 ? 0 : static_cast<std::uint32_t>(random_.below(100));
    receive.local = draw_buffers(remote_, (operation.is_send() ? operation.length : 0) + spare);
    std::uint32_t left = operation.is_send() ? operation.length : 0;
    for (const Buffer& buffer : receive.local) {
      const std::uint32_t here = std::min(left, buffer.length);
      if (here > 0) receive.filled.push_back({buffer.offset, here});
      left -= here;
    }
    traffic_.receives.push_back(receive);
  }

  void apply(const Operation& operation) {
    if (operation.is_atomic()) return apply_atomic(operation);
    const bool from_remote = operation.opcode == WorkOpcode::kRdmaRead;
    std::vector<Buffer> target{operation.remote};
    if (operation.is_send()) target = traffic_.receives.back().filled;
    std::vector<std::byte> data;
    const auto gather = [&data](Arena& arena, const std::vector<Buffer>& buffers) {
      for (const Buffer& b : buffers) {
        const auto* from = arena.reference().data() + b.offset;
        data.insert(data.end(), from, from + b.length);
      }
    };
    const auto scatter = [&data](Arena& arena, const std::vector<Buffer>& buffers) {
      std::size_t used = 0;
      for (const Buffer& b : buffers) {
        if (b.length == 0) continue;
        std::memcpy(arena.reference().data() + b.offset, data.data() + used, b.length);
        used += b.length;
      }
    };
    gather(from_remote ? remote_ : local_, from_remote ? target : operation.local);
    scatter(from_remote ? local_ : remote_, from_remote ? operation.local : target);
    if ((operation.flags & kSendInline) == 0) return;
    for (const Buffer& b : operation.local) {  // posting it overwrites the bytes at once
      for (std::uint32_t i = 0; i < b.length; ++i) local_.reference()[b.offset + i] ^= std::byte{0xFF};
    }
  }

  void apply_atomic(const Operation& drawn) {
    auto& operation = const_cast<Operation&>(drawn);
    std::uint64_t value = 0;
    std::byte* word = remote_.reference().data() + operation.remote.offset;
    std::memcpy(&value, word, 8);
    std::memcpy(local_.reference().data() + operation.local[0].offset, &value, 8);
    if (operation.opcode == WorkOpcode::kAtomicFetchAdd) {
      operation.compare_or_add = random_.below(2) == 0 ? random_.below(100) : random_.next();
      value += operation.compare_or_add;
    } else {
      operation.compare_or_add = random_.below(2) == 0 ? value : random_.next();
      operation.swap = random_.next();
      if (operation.compare_or_add == value) value = operation.swap;
    }
    std::memcpy(word, &value, 8);
  }

  const TrafficConfig& config_;
  Random& random_;
  Arena& local_;
  Arena& remote_;
  Buffer target_;
  std::vector<Buffer> unfenced_reads_, unfenced_atomics_;
  Traffic traffic_;
};

}  // namespace

Traffic plan_traffic(const TrafficConfig& config, Random& random, Arena& local, Arena& remote) {
  return Planner{config, random, local, remote}.plan();
}

}  // namespace brdma::test
