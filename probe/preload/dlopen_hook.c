#include "dlopen_hook.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "watcher.h"

static _Atomic(TtDlopen) g_real;

// Only if libc had no dlopen: fail as a dlopen does.
static void* no_dlopen(const char* path, int mode) {
  (void)path;
  (void)mode;
  return NULL;
}

TtDlopen tt_real_dlopen(void) {
  TtDlopen real = atomic_load_explicit(&g_real, memory_order_relaxed);
  if (real == NULL) {
    *(void**)&real = dlsym(RTLD_NEXT, "dlopen");
    if (real == NULL) real = no_dlopen;
    atomic_store_explicit(&g_real, real, memory_order_relaxed);
  }
  return real;
}

// torch/_C.cpython-311-x86_64-linux-gnu.so, libtorch.so, torch/lib/libtorch_global_deps.so, libc10.so, …
static bool speaks_of_torch(const char* path) {
  return strstr(path, "torch") != NULL || strstr(path, "c10") != NULL;
}

TtDlopen tt_before_dlopen(const char* path) {
  const int saved_errno = errno;
  tt_note_dlopen(path != NULL && speaks_of_torch(path));
  errno = saved_errno;
  return tt_real_dlopen();
}

#if defined(__x86_64__)
// rdi, rsi: the arguments. On entry the stack is 8 off a 16-byte border; two pushes and 8 bytes put it right.
__asm__(
    ".text\n"
    ".globl dlopen\n"
    ".type dlopen, @function\n"
    "dlopen:\n"
    "  .cfi_startproc\n"
    "  endbr64\n"
    "  pushq %rdi\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  pushq %rsi\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  subq $8, %rsp\n"
    "  .cfi_adjust_cfa_offset 8\n"
    "  call tt_before_dlopen\n"
    "  addq $8, %rsp\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  popq %rsi\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  popq %rdi\n"
    "  .cfi_adjust_cfa_offset -8\n"
    "  jmp *%rax\n"
    "  .cfi_endproc\n"
    ".size dlopen, . - dlopen\n");
#else
// Compilers turn this into a jump when they optimise (sibling call); the caller's return address stays then
// too.
__attribute__((visibility("default"), optimize("O2"))) void* dlopen(const char* path, int mode) {
  return tt_before_dlopen(path)(path, mode);
}
#endif
