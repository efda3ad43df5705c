// A library that calls the target's functions in every way a relocation slot serves. Built with and without
// -z now.
#include "tests/unit/slots/target.h"

namespace {
struct Derived : SlotBase {};  // inherits `scale`: the vtable in this library names it
SlotCall const volatile g_by_data = &slot_target;
}  // namespace

extern "C" int call_by_plt(int value) { return slot_target(value); }
extern "C" int call_other(int value) { return slot_target_other(value); }
extern "C" int call_by_data(int value) { return g_by_data(value); }
extern "C" int call_by_vtable(int value) {
  Derived derived;
  SlotBase* volatile base = &derived;
  return base->scale(value);
}
