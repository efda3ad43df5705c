// The library whose functions slots_test.cpp replaces, and what its callers export.
#pragma once

struct SlotBase {
  virtual ~SlotBase() = default;
  virtual int scale(int value);  // in the target library: its vtable has a slot by name
};

extern "C" int slot_target(int value);         // value + 1
extern "C" int slot_target_other(int value);   // value + 2
extern "C" int slot_target_inside(int value);  // slot_target(value)

using SlotCall = int (*)(int);
