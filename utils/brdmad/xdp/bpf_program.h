// brdmad/xdp/bpf_program.h - assembles a BPF program of a few dozen instructions with jump labels. A compiler for BPF
// (clang, gcc) would be a build dependency many times larger than all others of this project.
#pragma once

#include <linux/bpf.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace brdma::daemon {

class BpfProgram {
 public:
  // The kernel's calling convention: r1..r5 arguments, r0 result, r6..r9 preserved over calls, r10 frame pointer.
  enum Register : std::uint8_t { r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, r10 };
  enum class Size : std::uint8_t { kByte = BPF_B, kHalf = BPF_H, kWord = BPF_W, kDouble = BPF_DW };
  struct Label {
    std::size_t index = 0;
  };

  [[nodiscard]] Label new_label() {
    targets_.push_back(0);
    return Label{targets_.size() - 1};
  }
  void bind(Label label) { targets_[label.index] = code_.size(); }

  void move(Register to, Register from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
  void set(Register to, std::int32_t value) { add(BPF_ALU64 | BPF_MOV | BPF_K, to, r0, 0, value); }
  void set64(Register to, std::uint64_t value) {
    add(BPF_LD | BPF_DW | BPF_IMM, to, r0, 0, static_cast<std::int32_t>(value));
    add(0, r0, r0, 0, static_cast<std::int32_t>(value >> 32));
  }
  void add_to(Register to, std::int32_t value) { add(BPF_ALU64 | BPF_ADD | BPF_K, to, r0, 0, value); }
  void mask(Register to, std::int32_t value) { add(BPF_ALU64 | BPF_AND | BPF_K, to, r0, 0, value); }
  void load(Size size, Register to, Register base, std::int16_t offset) {
    add(static_cast<std::uint8_t>(BPF_LDX | BPF_MEM) | static_cast<std::uint8_t>(size), to, base, offset, 0);
  }
  void store_word(Register base, std::int16_t offset, Register from) {
    add(BPF_STX | BPF_MEM | BPF_W, base, from, offset, 0);
  }
  void from_network16(Register value) { add(BPF_ALU | BPF_END | BPF_TO_BE, value, r0, 0, 16); }
  void from_network32(Register value) { add(BPF_ALU | BPF_END | BPF_TO_BE, value, r0, 0, 32); }
  void load_map(Register to, int map_fd) {
    add(BPF_LD | BPF_DW | BPF_IMM, to, static_cast<Register>(BPF_PSEUDO_MAP_FD), 0, map_fd);
    add(0, r0, r0, 0, 0);
  }
  void call(std::int32_t helper) { add(BPF_JMP | BPF_CALL, r0, r0, 0, helper); }
  void exit() { add(BPF_JMP | BPF_EXIT, r0, r0, 0, 0); }

  void jump(Label to) { jump_by(BPF_JMP | BPF_JA, r0, r0, 0, to); }
  void jump_if_equal(Register a, std::int32_t value, Label to) { jump_by(BPF_JMP | BPF_JEQ | BPF_K, a, r0, value, to); }
  // Compares the low 32 bits; the others compare all 64 with the sign-extended `value`.
  void jump_if_equal32(Register a, std::int32_t value, Label to) {
    jump_by(BPF_JMP32 | BPF_JEQ | BPF_K, a, r0, value, to);
  }
  void jump_if_not(Register a, std::int32_t value, Label to) { jump_by(BPF_JMP | BPF_JNE | BPF_K, a, r0, value, to); }
  void jump_if_not(Register a, Register b, Label to) { jump_by(BPF_JMP | BPF_JNE | BPF_X, a, b, 0, to); }
  void jump_if_below(Register a, std::int32_t value, Label to) { jump_by(BPF_JMP | BPF_JLT | BPF_K, a, r0, value, to); }
  void jump_if_above(Register a, Register b, Label to) { jump_by(BPF_JMP | BPF_JGT | BPF_X, a, b, 0, to); }
  void jump_if_above(Register a, std::int32_t value, Label to) { jump_by(BPF_JMP | BPF_JGT | BPF_K, a, r0, value, to); }

  // All labels are bound.
  [[nodiscard]] std::vector<bpf_insn> assemble() const {
    std::vector<bpf_insn> result = code_;
    for (const auto& [at, label] : jumps_) {
      const auto distance = static_cast<std::ptrdiff_t>(targets_[label.index]) - static_cast<std::ptrdiff_t>(at) - 1;
      result[at].off = static_cast<std::int16_t>(distance);
    }
    return result;
  }

 private:
  struct Jump {
    std::size_t at;
    Label label;
  };
  void add(int code, Register to, Register from, std::int16_t offset, std::int32_t value) {
    bpf_insn instruction{};
    instruction.code = static_cast<std::uint8_t>(code);
    instruction.dst_reg = to & 15;
    instruction.src_reg = from & 15;
    instruction.off = offset;
    instruction.imm = value;
    code_.push_back(instruction);
  }
  void jump_by(int code, Register a, Register b, std::int32_t value, Label label) {
    jumps_.push_back({code_.size(), label});
    add(code, a, b, 0, value);
  }

  std::vector<bpf_insn> code_;
  std::vector<std::size_t> targets_;
  std::vector<Jump> jumps_;
};

}  // namespace brdma::daemon
