#include "probe/torch/group_slots.h"

#include <ATen/Context.h>
#include <link.h>

#include <cstring>

#include "probe/core/process_group.h"
#include "probe/torch/elf_object.h"
#include "probe/torch/slots.h"

namespace tensortap::probe {
namespace {

// A class whose instances have a destructor is passed by its address (Itanium C++ ABI): `store` is one by
// value or by reference, `options` is there or is what happens to be in that register.
constexpr char kNoBackend[] = "", kGloo[] = "gloo", kNccl[] = "nccl";
template <const char* kBackend>
struct Construct {
  static inline void (*original)(void*, void*, int, int, void*) = nullptr;
  static void call(void* self, void* store, int rank, int world_size, void* options) {
    original(self, store, rank, world_size, options);
    group_constructed(rank, world_size, kBackend);
  }
};

// The parameters that a constructor's name ends with: a store by value or by reference, rank and size, and
// what may follow.
constexpr char kStore[] =
    "N3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_typeIS3_EEEEii";

bool starts_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

struct Patcher {
  SlotPatcher slots;
  bool failed = false;
};

// Is it a constructor of this class (its mangled name) with those parameters? C1 and C2, of a complete object
// and of a base, are the same function here.
bool is_constructor(const char* name, const char* of_class) {
  if (!starts_with(name, of_class)) return false;
  const char* code = name + std::strlen(of_class);
  if (!starts_with(code, "C1E") && !starts_with(code, "C2E")) return false;
  const char* parameters = code + 3;
  return starts_with(parameters, kStore) ||
         (starts_with(parameters, "RK") && starts_with(parameters + 2, kStore));
}

template <const char* kBackend>
void add(Patcher* patcher, const char* name, void* address) {
  using Wrap = Construct<kBackend>;
  Wrap::original = reinterpret_cast<decltype(Wrap::original)>(address);
  patcher->slots.add(name, address, reinterpret_cast<void*>(&Wrap::call));
}

void take_export(const char* name, void* address, void* context) {
  auto* patcher = static_cast<Patcher*>(context);
  if (!starts_with(name, "_ZN4c10d")) return;
  try {
    if (is_constructor(name, "_ZN4c10d12ProcessGroup")) add<kNoBackend>(patcher, name, address);
    if (is_constructor(name, "_ZN4c10d16ProcessGroupGloo")) add<kGloo>(patcher, name, address);
    if (is_constructor(name, "_ZN4c10d16ProcessGroupNCCL")) add<kNccl>(patcher, name, address);
  } catch (...) {
    patcher->failed = true;
  }
}

// An address in libtorch_cuda, null when it isn't loaded.
const void* cuda_library() noexcept {
  const void* found = nullptr;
  const LoaderWalk walk;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        if (info->dlpi_name == nullptr || std::strstr(info->dlpi_name, "/libtorch_cuda.so") == nullptr)
          return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
          *static_cast<const void**>(data) =
              reinterpret_cast<const void*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
          return 1;
        }
        return 0;
      },
      &found);
  return found;
}

Patcher* make_patcher() noexcept {
  try {
    auto* patcher = new Patcher;  // never destroyed, as in nn_slots
    // The global context is an object of libtorch_cpu itself: its address leads to the library.
    const bool found = for_each_export(&at::globalContext(), &take_export, patcher);
    if (const void* cuda = cuda_library()) for_each_export(cuda, &take_export, patcher);
    return found && !patcher->failed ? patcher : nullptr;
  } catch (...) {
    return nullptr;
  }
}

Patcher* patcher() noexcept {
  static Patcher* const instance = make_patcher();
  return instance;
}

}  // namespace

void group_slots_install() noexcept {
  if (patcher() != nullptr) patcher()->slots.install();
}

void group_slots_repatch() noexcept {
  if (patcher() != nullptr) patcher()->slots.repatch();
}

}  // namespace tensortap::probe
