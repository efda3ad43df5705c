#include "tests/unit/slots/target.h"

int SlotBase::scale(int value) { return value * 2; }
extern "C" int slot_target(int value) { return value + 1; }
extern "C" int slot_target_other(int value) { return value + 2; }
extern "C" int slot_target_inside(int value) { return slot_target(value); }  // by its own PLT
