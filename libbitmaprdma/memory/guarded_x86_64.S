// memory/guarded_x86_64.S - part of guarded.S.

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
