// memory/guarded.S - see guard.h. Between brdma_guarded_begin and brdma_guarded_end lie functions that call nothing and
// leave the stack pointer where it was on entry: where one of their instructions faults, going on at
// brdma_guarded_failed is the function's returning false. All of them return true in the register for results.

#if defined(__x86_64__) && defined(__linux__)

#if defined(__CET__)
#include <cet.h>
#endif
#ifndef _CET_ENDBR
#define _CET_ENDBR
#endif

#define FUNCTION(name)       \
  .globl name;               \
  .hidden name;              \
  .type name, @function;     \
  .p2align 4;                \
  name:                      \
  .cfi_startproc;            \
  _CET_ENDBR
#define END(name) \
  .cfi_endproc;   \
  .size name, . - name
#define DONE        \
  movl $1, %eax;    \
  ret

  .text
  .globl brdma_guarded_begin
  .hidden brdma_guarded_begin
brdma_guarded_begin:

// Copies %rdx bytes from %rsi to %rdi, ends by `end`: pieces from both ends that may overlap in the middle. Runs above 128
// bytes, which are packets, by vectors of 32 bytes where the machine has them (brdma_guarded_wide). Leaves %r9 to %r11.
  .macro copy_and end
  cmpq $64, %rdx
  ja 64f
  cmpq $32, %rdx
  ja 32f
  cmpl $16, %edx
  jb 15f
  movups (%rsi), %xmm0
  movups -16(%rsi, %rdx), %xmm1
  movups %xmm0, (%rdi)
  movups %xmm1, -16(%rdi, %rdx)
  \end
32:
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups -32(%rsi, %rdx), %xmm2
  movups -16(%rsi, %rdx), %xmm3
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  movups %xmm2, -32(%rdi, %rdx)
  movups %xmm3, -16(%rdi, %rdx)
  \end
64:
  cmpq $128, %rdx
  ja 128f
  movups (%rsi), %xmm0
  movups 16(%rsi), %xmm1
  movups 32(%rsi), %xmm2
  movups 48(%rsi), %xmm3
  movups -64(%rsi, %rdx), %xmm4
  movups -48(%rsi, %rdx), %xmm5
  movups -32(%rsi, %rdx), %xmm6
  movups -16(%rsi, %rdx), %xmm7
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  movups %xmm2, 32(%rdi)
  movups %xmm3, 48(%rdi)
  movups %xmm4, -64(%rdi, %rdx)
  movups %xmm5, -48(%rdi, %rdx)
  movups %xmm6, -32(%rdi, %rdx)
  movups %xmm7, -16(%rdi, %rdx)
  \end
128:
  cmpb $0, brdma_guarded_wide(%rip)
  jne 256f
  leaq -64(%rdi, %rdx), %r8  // where the last 64 bytes go
  subq %rdi, %rsi            // the source is that far from the destination
129:
  movups (%rdi, %rsi), %xmm0
  movups 16(%rdi, %rsi), %xmm1
  movups 32(%rdi, %rsi), %xmm2
  movups 48(%rdi, %rsi), %xmm3
  movups %xmm0, (%rdi)
  movups %xmm1, 16(%rdi)
  movups %xmm2, 32(%rdi)
  movups %xmm3, 48(%rdi)
  addq $64, %rdi
  cmpq %r8, %rdi
  jb 129b
  movups (%r8, %rsi), %xmm0
  movups 16(%r8, %rsi), %xmm1
  movups 32(%r8, %rsi), %xmm2
  movups 48(%r8, %rsi), %xmm3
  movups %xmm0, (%r8)
  movups %xmm1, 16(%r8)
  movups %xmm2, 32(%r8)
  movups %xmm3, 48(%r8)
  \end
256:
  leaq -128(%rdi, %rdx), %r8
  subq %rdi, %rsi
  .p2align 4
257:
  vmovups (%rdi, %rsi), %ymm0
  vmovups 32(%rdi, %rsi), %ymm1
  vmovups 64(%rdi, %rsi), %ymm2
  vmovups 96(%rdi, %rsi), %ymm3
  vmovups %ymm0, (%rdi)
  vmovups %ymm1, 32(%rdi)
  vmovups %ymm2, 64(%rdi)
  vmovups %ymm3, 96(%rdi)
  addq $128, %rdi
  cmpq %r8, %rdi
  jb 257b
  vmovups (%r8, %rsi), %ymm0
  vmovups 32(%r8, %rsi), %ymm1
  vmovups 64(%r8, %rsi), %ymm2
  vmovups 96(%r8, %rsi), %ymm3
  vmovups %ymm0, (%r8)
  vmovups %ymm1, 32(%r8)
  vmovups %ymm2, 64(%r8)
  vmovups %ymm3, 96(%r8)
  vzeroupper
  \end
15:
  cmpl $8, %edx
  jb 7f
  movq (%rsi), %rax
  movq -8(%rsi, %rdx), %rcx
  movq %rax, (%rdi)
  movq %rcx, -8(%rdi, %rdx)
  \end
7:
  cmpl $4, %edx
  jb 3f
  movl (%rsi), %eax
  movl -4(%rsi, %rdx), %ecx
  movl %eax, (%rdi)
  movl %ecx, -4(%rdi, %rdx)
  \end
3:
  testl %edx, %edx
  je 0f
  movzbl (%rsi), %eax
  movzbl -1(%rsi, %rdx), %ecx
  cmpl $3, %edx
  jne 2f
  movzbl 1(%rsi), %r8d
  movb %r8b, 1(%rdi)
2:
  movb %al, (%rdi)
  movb %cl, -1(%rdi, %rdx)
0:
  \end
  .endm

  .macro done
  movl $1, %eax
  ret
  .endm
  .macro word_and_done
  movq %r9, (%r10)
  done
  .endm
  .macro byte_and_done
  movb %r9b, (%r10)
  done
  .endm

// bool brdma_guarded_copy(to %rdi, from %rsi, size %rdx)
FUNCTION(brdma_guarded_copy)
  copy_and done
END(brdma_guarded_copy)

// bool brdma_guarded_place(to %rdi, from %rsi, size %rdx), of one byte at least: the end last (memory/copy.h)
FUNCTION(brdma_guarded_place)
  leaq (%rdi, %rdx), %r10
  cmpq $8, %rdx
  jb 1f
  testb $7, %r10b
  jne 1f
  subq $8, %rdx
  subq $8, %r10
  movq (%rsi, %rdx), %r9
  copy_and word_and_done
1:
  subq $1, %rdx
  subq $1, %r10
  movzbl (%rsi, %rdx), %r9d
  copy_and byte_and_done
END(brdma_guarded_place)

// bool brdma_guarded_store_8(to %rdi, value %rsi), after all that was stored before
FUNCTION(brdma_guarded_store_8)
  movq %rsi, (%rdi)
  DONE
END(brdma_guarded_store_8)

FUNCTION(brdma_guarded_store_1)
  movb %sil, (%rdi)
  DONE
END(brdma_guarded_store_1)

// bool brdma_guarded_add(word %rdi, add %rsi, original %rdx)
FUNCTION(brdma_guarded_add)
  lock xaddq %rsi, (%rdi)
  movq %rsi, (%rdx)
  DONE
END(brdma_guarded_add)

// bool brdma_guarded_swap(word %rdi, compare %rsi, swap %rdx, original %rcx)
FUNCTION(brdma_guarded_swap)
  movq %rsi, %rax
  lock cmpxchgq %rdx, (%rdi)
  movq %rax, (%rcx)
  DONE
END(brdma_guarded_swap)

FUNCTION(brdma_guarded_read)
  movzbl (%rdi), %eax
  DONE
END(brdma_guarded_read)

FUNCTION(brdma_guarded_write)
  lock orb $0, (%rdi)
  DONE
END(brdma_guarded_write)

  .globl brdma_guarded_end
  .hidden brdma_guarded_end
brdma_guarded_end:

FUNCTION(brdma_guarded_failed)
  cmpb $0, brdma_guarded_wide(%rip)
  je 1f
  vzeroupper
1:
  xorl %eax, %eax
  ret
END(brdma_guarded_failed)

// The registers that a function keeps, the place of the stack pointer, and that itself. What is left of a body that faulted
// is taken off by .Lleave.
  .macro keep register
  pushq \register
  .cfi_adjust_cfa_offset 8
  .cfi_rel_offset \register, 0
  .endm
  .macro keep_all place
  keep %rbp
  keep %rbx
  keep %r12
  keep %r13
  keep %r14
  keep %r15
  pushq \place
  .cfi_adjust_cfa_offset 8
  movq %rsp, (\place)
  .endm

// bool brdma_guarded_call(body %rdi, its argument %rsi, struct Guard %rdx)
FUNCTION(brdma_guarded_call)
  keep_all %rdx
  movq %rdi, %rax
  movq %rsi, %rdi
  call *%rax
  movl $1, %eax
.Lleave:
  popq %rcx
  movq $0, (%rcx)
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
END(brdma_guarded_call)

// {value, there} brdma_guarded_sum(function %rdi, running sum %esi, data %rdx, size %rcx, struct Guard %r8)
FUNCTION(brdma_guarded_sum)
  keep_all %r8
  movq %rdx, 8(%r8)
  movq %rcx, 16(%r8)
  movq %rdi, %rax
  movl %esi, %edi
  movq %rdx, %rsi
  movq %rcx, %rdx
  call *%rax
  movl $1, %edx
  popq %rcx
  movq $0, (%rcx)
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
END(brdma_guarded_sum)

// Where a body that faulted goes on, the stack pointer being the one that was kept.
FUNCTION(brdma_guarded_call_failed)
  cmpb $0, brdma_guarded_wide(%rip)
  je 1f
  vzeroupper
1:
  xorl %eax, %eax
  xorl %edx, %edx
  jmp .Lleave
END(brdma_guarded_call_failed)

#elif defined(__aarch64__) && defined(__linux__)

#define FUNCTION(name)       \
  .globl name;               \
  .hidden name;              \
  .type name, %function;     \
  .p2align 4;                \
  name:                      \
  .cfi_startproc;            \
  hint 34 /* bti c */
#define END(name) \
  .cfi_endproc;   \
  .size name, . - name
#define DONE   \
  mov w0, 1;   \
  ret

  .text
  .globl brdma_guarded_begin
  .hidden brdma_guarded_begin
brdma_guarded_begin:

// Copies x2 bytes from x1 to x0, ends by `end`: pieces from both ends. Leaves x9 to x11.
  .macro copy_and end
  add x4, x1, x2  // ends
  add x5, x0, x2
  cmp x2, 16
  b.lo 15f
  cmp x2, 32
  b.hi 32f
  ldr q0, [x1]
  ldr q1, [x4, -16]
  str q0, [x0]
  str q1, [x5, -16]
  \end
32:
  cmp x2, 64
  b.hi 64f
  ldp q0, q1, [x1]
  ldp q2, q3, [x4, -32]
  stp q0, q1, [x0]
  stp q2, q3, [x5, -32]
  \end
64:
  ldp q0, q1, [x1]
  ldp q2, q3, [x1, 32]
  add x1, x1, 64
  stp q0, q1, [x0]
  stp q2, q3, [x0, 32]
  add x0, x0, 64
  sub x2, x2, 64
  cmp x2, 64
  b.hi 64b
  ldp q0, q1, [x4, -64]
  ldp q2, q3, [x4, -32]
  stp q0, q1, [x5, -64]
  stp q2, q3, [x5, -32]
  \end
15:
  tbz x2, 3, 7f
  ldr x6, [x1]
  ldr x7, [x4, -8]
  str x6, [x0]
  str x7, [x5, -8]
  \end
7:
  tbz x2, 2, 3f
  ldr w6, [x1]
  ldr w7, [x4, -4]
  str w6, [x0]
  str w7, [x5, -4]
  \end
3:
  cbz x2, 0f
  ldrb w6, [x1]
  ldrb w7, [x4, -1]
  tbz x2, 1, 2f
  ldrb w8, [x1, 1]
  strb w8, [x0, 1]
2:
  strb w6, [x0]
  strb w7, [x5, -1]
0:
  \end
  .endm

  .macro done
  mov w0, 1
  ret
  .endm
  .macro word_and_done
  stlr x9, [x10]
  done
  .endm
  .macro byte_and_done
  stlrb w9, [x10]
  done
  .endm

// bool brdma_guarded_copy(to x0, from x1, size x2)
FUNCTION(brdma_guarded_copy)
  copy_and done
END(brdma_guarded_copy)

// bool brdma_guarded_place(to x0, from x1, size x2), of one byte at least: the end last (memory/copy.h)
FUNCTION(brdma_guarded_place)
  add x10, x0, x2
  cmp x2, 8
  b.lo 1f
  tst x10, 7
  b.ne 1f
  sub x2, x2, 8
  sub x10, x10, 8
  ldr x9, [x1, x2]
  copy_and word_and_done
1:
  sub x2, x2, 1
  sub x10, x10, 1
  ldrb w9, [x1, x2]
  copy_and byte_and_done
END(brdma_guarded_place)

FUNCTION(brdma_guarded_store_8)
  stlr x1, [x0]
  DONE
END(brdma_guarded_store_8)

FUNCTION(brdma_guarded_store_1)
  stlrb w1, [x0]
  DONE
END(brdma_guarded_store_1)

FUNCTION(brdma_guarded_add)
1:
  ldaxr x3, [x0]
  add x4, x3, x1
  stlxr w5, x4, [x0]
  cbnz w5, 1b
  dmb ish
  str x3, [x2]
  DONE
END(brdma_guarded_add)

FUNCTION(brdma_guarded_swap)
1:
  ldaxr x4, [x0]
  cmp x4, x1
  b.ne 2f
  stlxr w5, x2, [x0]
  cbnz w5, 1b
2:
  dmb ish
  str x4, [x3]
  DONE
END(brdma_guarded_swap)

FUNCTION(brdma_guarded_read)
  ldrb w1, [x0]
  DONE
END(brdma_guarded_read)

FUNCTION(brdma_guarded_write)
1:
  ldxrb w1, [x0]
  stxrb w2, w1, [x0]
  cbnz w2, 1b
  DONE
END(brdma_guarded_write)

  .globl brdma_guarded_end
  .hidden brdma_guarded_end
brdma_guarded_end:

FUNCTION(brdma_guarded_failed)
  mov w0, 0
  ret
END(brdma_guarded_failed)

// The registers that a function keeps, the place of the stack pointer, and that itself.
  .macro keep_all place
  stp x29, x30, [sp, -176]!
  .cfi_adjust_cfa_offset 176
  .cfi_rel_offset x29, 0
  .cfi_rel_offset x30, 8
  mov x29, sp
  stp x19, x20, [sp, 16]
  stp x21, x22, [sp, 32]
  stp x23, x24, [sp, 48]
  stp x25, x26, [sp, 64]
  stp x27, x28, [sp, 80]
  stp d8, d9, [sp, 96]
  stp d10, d11, [sp, 112]
  stp d12, d13, [sp, 128]
  stp d14, d15, [sp, 144]
  str \place, [sp, 160]
  str x29, [\place]
  .endm
  .macro leave
  ldr x2, [sp, 160]
  str xzr, [x2]
  ldp x19, x20, [sp, 16]
  ldp x21, x22, [sp, 32]
  ldp x23, x24, [sp, 48]
  ldp x25, x26, [sp, 64]
  ldp x27, x28, [sp, 80]
  ldp d8, d9, [sp, 96]
  ldp d10, d11, [sp, 112]
  ldp d12, d13, [sp, 128]
  ldp d14, d15, [sp, 144]
  ldp x29, x30, [sp], 176
  ret
  .endm

// bool brdma_guarded_call(body x0, its argument x1, struct Guard x2)
FUNCTION(brdma_guarded_call)
  keep_all x2
  mov x3, x0
  mov x0, x1
  blr x3
  mov w0, 1
  leave
END(brdma_guarded_call)

// {value, there} brdma_guarded_sum(function x0, running sum w1, data x2, size x3, struct Guard x4)
FUNCTION(brdma_guarded_sum)
  keep_all x4
  stp x2, x3, [x4, 8]
  mov x5, x0
  mov w0, w1
  mov x1, x2
  mov x2, x3
  blr x5
  mov w1, 1
  leave
END(brdma_guarded_sum)

// Where a body that faulted goes on, the stack pointer being the one that was kept.
FUNCTION(brdma_guarded_call_failed)
  mov w0, 0
  mov w1, 0
  leave
END(brdma_guarded_call_failed)

#endif

#if defined(__linux__) && defined(__ELF__)
  .section .note.GNU-stack, "", %progbits
#endif
