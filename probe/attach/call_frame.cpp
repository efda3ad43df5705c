#include "probe/attach/call_frame.h"

#include <cpuid.h>
#include <signal.h>
#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "probe/attach/safe_moment.h"

namespace tensortap::probe {
namespace {

constexpr std::uint64_t kRedZone = 128;
constexpr std::size_t kKernelContext = offsetof(ucontext_t, uc_sigmask) + 8;
static_assert(kKernelContext == 304, "the layout that the kernel reads");
constexpr std::size_t kContextRoom = 448;  // context and siginfo

// The kernel's marks of a saved state that is more than the 512 bytes of FXSAVE (asm/sigcontext.h).
constexpr std::uint32_t kMagic1 = 0x46505853, kMagic2 = 0x46505845;
constexpr std::size_t kMarksAt = 464;
constexpr std::size_t kLegacyBytes = 512 + 64;
constexpr unsigned kFirstTileFeature =
    17;  // AMX: a thread must have asked for it, and the kernel's size depends on that

struct Marks {
  std::uint32_t magic1, extended_size;
  std::uint64_t features;
  std::uint32_t state_size, padding[7];
};

// Bytes of the standard form of the features below the tiles.
std::size_t state_bytes(std::uint64_t features) {
  std::size_t bytes = kLegacyBytes;
  for (unsigned feature = 2; feature < kFirstTileFeature; ++feature) {
    unsigned size = 0, offset = 0, c = 0, d = 0;
    if ((features >> feature & 1) != 0 && __get_cpuid_count(0xd, feature, &size, &offset, &c, &d) != 0) {
      bytes = std::max<std::size_t>(bytes, std::size_t{offset} + size);
    }
  }
  return bytes;
}

// As the kernel would have written it for a handler; empty when this processor's state is not as expected.
std::vector<unsigned char> signal_state(const std::vector<unsigned char>& extended) {
  if (extended.size() < kLegacyBytes) return {};
  Marks marks{};
  std::memcpy(&marks.features, extended.data() + kMarksAt, sizeof marks.features);
  marks.features &= (1ULL << kFirstTileFeature) - 1;
  const std::size_t bytes = std::min(state_bytes(marks.features), extended.size());
  marks.magic1 = kMagic1;
  marks.state_size = static_cast<std::uint32_t>(bytes);
  marks.extended_size = marks.state_size + sizeof kMagic2;
  std::vector<unsigned char> out(extended);
  out.resize(bytes + sizeof kMagic2);
  const auto put = [&out](std::size_t at, const void* data, std::size_t size) {
    const auto* from = static_cast<const unsigned char*>(data);
    std::copy(from, from + size, out.begin() + static_cast<std::ptrdiff_t>(at));
  };
  put(kMarksAt, &marks, sizeof marks);
  put(bytes, &kMagic2, sizeof kMagic2);
  return out;
}

ucontext_t context_of(const user_regs_struct& registers, std::uint64_t mask, std::uint64_t state) {
  ucontext_t out;
  std::memset(&out, 0, sizeof out);
  out.uc_flags = (state != 0 ? 1 : 0) | 2 | 4;  // extended state; SS is saved, and to be restored as it is
  out.uc_stack.ss_flags = 0x10;                 // no such flag: the alternate stack stays as it is
  auto& general = out.uc_mcontext.gregs;
  const auto set = [&general](int index, unsigned long long value) {
    general[index] = static_cast<greg_t>(value);
  };
  set(REG_R8, registers.r8), set(REG_R9, registers.r9), set(REG_R10, registers.r10),
      set(REG_R11, registers.r11);
  set(REG_R12, registers.r12), set(REG_R13, registers.r13), set(REG_R14, registers.r14),
      set(REG_R15, registers.r15);
  set(REG_RDI, registers.rdi), set(REG_RSI, registers.rsi), set(REG_RBP, registers.rbp),
      set(REG_RBX, registers.rbx);
  set(REG_RDX, registers.rdx), set(REG_RAX, registers.rax), set(REG_RCX, registers.rcx),
      set(REG_RSP, registers.rsp);
  set(REG_RIP, registers.rip), set(REG_EFL, registers.eflags);
  set(REG_CSGSFS, registers.cs | registers.ss << 48);
  if (call_is_taken_up_again(registers)) {
    set(REG_RIP, registers.rip - 2);  // the instruction `syscall`
    set(REG_RAX, registers.orig_rax);
  }
  out.uc_mcontext.fpregs = reinterpret_cast<fpregset_t>(state);
  std::memcpy(&out.uc_sigmask, &mask, sizeof mask);
  return out;
}

}  // namespace

CallFrame build_call_frame(const user_regs_struct& registers, std::uint64_t mask,
                           const std::vector<unsigned char>& extended, std::uint64_t restorer,
                           std::string_view text) {
  const std::vector<unsigned char> state = signal_state(extended);
  CallFrame frame;
  frame.text = (registers.rsp - kRedZone - text.size() - 1) & ~15ULL;
  const std::uint64_t state_at = (frame.text - state.size()) & ~63ULL;
  frame.address = ((state_at - kContextRoom) & ~15ULL) - 8;  // as behind a call instruction
  const ucontext_t context = context_of(registers, mask, state.empty() ? 0 : state_at);

  frame.bytes.resize(frame.text + text.size() + 1 - frame.address);
  const auto put = [&frame](std::uint64_t address, const void* data, std::size_t size) {
    if (size != 0) std::memcpy(frame.bytes.data() + (address - frame.address), data, size);
  };
  put(frame.address, &restorer, sizeof restorer);
  put(frame.address + 8, &context, kKernelContext);
  put(state_at, state.data(), state.size());
  put(frame.text, text.data(), text.size());
  return frame;
}

}  // namespace tensortap::probe
