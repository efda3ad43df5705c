// The stack of a thread that is made to call a function: built as the kernel builds it for a signal handler,
// so that the function's return is a return from a signal. The kernel then restores every register by itself:
// the thread finds back into its work whatever becomes of whoever sent it.
//
// Thread rules: pure.
//
//   const CallFrame frame = build_call_frame(registers, mask, extended, restorer, "socket=/run/…");
//   memory.write(frame.address, frame.bytes.data(), frame.bytes.size());
//   // then: rsp = frame.address, rip = function, rdi = frame.text
#pragma once

#include <sys/user.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace tensortap::probe {

struct CallFrame {
  std::uint64_t address = 0;  // the stack pointer at the function's first instruction
  std::uint64_t text = 0;     // where the text is
  std::vector<unsigned char> bytes;
};

// `mask`: the thread's blocked signals. `extended`: its floating point and vector registers as
// PTRACE_GETREGSET (NT_X86_XSTATE) gives them. `restorer`: an instruction sequence that calls rt_sigreturn. A
// system call that the kernel would take up again is entered again with its own arguments.
CallFrame build_call_frame(const user_regs_struct& registers, std::uint64_t mask,
                           const std::vector<unsigned char>& extended, std::uint64_t restorer,
                           std::string_view text);

}  // namespace tensortap::probe
