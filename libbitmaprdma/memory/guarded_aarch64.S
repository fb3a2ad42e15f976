// memory/guarded_aarch64.S - part of guarded.S.

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
