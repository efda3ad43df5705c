// What is known of each module object: its path, its type and how often it was called.
//
// A table from the object's address to an entry. Each entry holds a weak reference, so a module dies when it
// would have died, and an address that is used again is a miss. An entry's texts are kept as they are and
// interned again when the session's generation changed.
//
// A root (a module called while no other runs) is walked, with the paths of named_modules(): pre-order, a
// shared module gets the first path. A module known from a smaller root gets the path in the larger one. The
// walk reads the `_modules` dictionaries without running Python code.
//
// Threads: the GIL protects everything here. Functions that call the interpreter may run the job's code (a
// collection of garbage may), so no pointer to an entry is kept across such a call. No destructors
// (interpreter.h says why).
//
//   ModuleEntry* entry = module_find(object);
//   if (!entry) { module_walk(root); entry = module_find(object); }
#pragma once

#include <cstdint>

#include "format/ring_record.h"
#include "probe/python/interpreter.h"

namespace tensortap::probe {

struct ModuleEntry {
  const PyObject* object;    // the key: an address
  PyObject* weakref;         // owned
  char* type;                // owned; class name
  char* path;                // owned; "" for a root, null when no root is known that has it
  std::uint32_t depth;       // components of the path
  std::uint32_t calls;       // seen so far
  std::uint64_t walk;        // the last walk that came by
  std::uint32_t root_call;   // the session's generation in which it was called as a root
  std::uint64_t number;      // of the object, in the trace
  std::uint32_t described;   // evidence_generation() in which its facts were written
  std::uint32_t reported;    // likewise, its parameters and buffers
  std::uint32_t generation;  // of the two references below
  format::StrRef name_ref;   // of the span: path, a root's type, or "(Type)"
  format::StrRef type_ref;
};

// A module that was called as a root in this capture; `object` is a reference of the caller's.
struct ModuleRoot {
  PyObject* object;
  std::uint64_t number;
  char type[96];
};
// The living roots that are in no other root's tree, oldest first. At most `room`.
std::size_t module_roots(ModuleRoot* roots, std::size_t room);

// The live entry of an object, or null. Calls no Python code.
ModuleEntry* module_find(PyObject* object);
// Registers everything below `root` (which gets the path "" unless it has one). Python errors are swallowed.
void module_walk(PyObject* root);
// Registers an object without a path; null when it can't be referenced weakly or memory is out.
ModuleEntry* module_add_unplaced(PyObject* object);
// Interns the entry's texts when they are not of this generation. Calls no Python code.
void module_refresh(ModuleEntry* entry);

}  // namespace tensortap::probe
