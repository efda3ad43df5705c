#include "probe/torch/group_slots.h"

#include <ATen/Context.h>

#include <cstring>

#include "probe/core/process_group.h"
#include "probe/torch/elf_object.h"
#include "probe/torch/slots.h"

namespace tensortap::probe {
namespace {

// A class whose instances have a destructor is passed by its address (Itanium C++ ABI): `store` is one by
// value or by reference, `options` is there or is what happens to be in that register.
struct Group {
  static inline void (*original)(void*, void*, int, int, void*) = nullptr;
  static void call(void* self, void* store, int rank, int world_size, void* options) {
    original(self, store, rank, world_size, options);
    group_constructed(rank, world_size, "");
  }
};
struct Gloo {
  static inline void (*original)(void*, void*, int, int, void*) = nullptr;
  static void call(void* self, void* store, int rank, int world_size, void* options) {
    original(self, store, rank, world_size, options);
    group_constructed(rank, world_size, "gloo");
  }
};

// The parameters that a name ends with: a store, rank and size, and what may follow.
constexpr char kStore[] =
    "N3c1013intrusive_ptrINS_5StoreENS1_6detail34intrusive_target_default_null_typeIS3_EEEEii";

bool starts_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

struct Patcher {
  SlotPatcher slots;
  bool failed = false;
};

template <class Wrap>
void add(Patcher* patcher, const char* name, void* address) {
  Wrap::original = reinterpret_cast<decltype(Wrap::original)>(address);
  patcher->slots.add(name, address, reinterpret_cast<void*>(&Wrap::call));
}

void take_export(const char* name, void* address, void* context) {
  auto* patcher = static_cast<Patcher*>(context);
  if (!starts_with(name, "_ZN4c10d")) return;
  try {
    // C1 and C2, of a complete object and of a base: the same function here.
    if (starts_with(name, "_ZN4c10d12ProcessGroupC") && std::strcmp(name + 25, kStore) == 0) {
      add<Group>(patcher, name, address);
    } else if (starts_with(name, "_ZN4c10d16ProcessGroupGlooC") && starts_with(name + 29, "RK") &&
               starts_with(name + 31, kStore)) {
      add<Gloo>(patcher, name, address);
    }
  } catch (...) {
    patcher->failed = true;
  }
}

Patcher* make_patcher() noexcept {
  try {
    auto* patcher = new Patcher;  // never destroyed, as in nn_slots
    // The global context is an object of libtorch_cpu itself: its address leads to the library.
    const bool found = for_each_export(&at::globalContext(), &take_export, patcher);
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
