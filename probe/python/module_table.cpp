#include "probe/python/module_table.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "probe/core/capture.h"

namespace tensortap::probe {

namespace {

constexpr std::size_t kFirstSlots = 256;
constexpr std::uint32_t kMaxDepth = 200;  // deeper modules keep the name "(Type)"
constexpr std::size_t kMaxPath = 1024;    // likewise

// Open addressing, linear probing, a power of two of slots, at most half full. Entries are removed by
// rebuilding only.
ModuleEntry** slots = nullptr;
std::size_t slot_count = 0;
std::size_t used = 0;
std::uint64_t walks = 0;

std::size_t slot_of(const PyObject* object, std::size_t count) {
  const auto bits = reinterpret_cast<std::uintptr_t>(object) >> 4;
  return static_cast<std::size_t>((bits * 0x9E3779B97F4A7C15ULL) >> 20) & (count - 1);
}

bool refers_to(PyObject* weakref, const PyObject* object) {
  if (py.WeakrefGetObject) return py.WeakrefGetObject(weakref) == object;
  PyObject* referent = nullptr;
  if (py.WeakrefGetRef(weakref, &referent) <= 0) return false;
  py.DecRef(referent);  // never the last one: whoever keeps it alive can't let go while we hold the GIL
  return referent == object;
}

ModuleEntry* lookup(const PyObject* object) {
  if (!slots) return nullptr;
  for (std::size_t i = slot_of(object, slot_count); slots[i]; i = (i + 1) & (slot_count - 1)) {
    if (slots[i]->object == object) return slots[i];
  }
  return nullptr;
}

void place(ModuleEntry** table, std::size_t count, ModuleEntry* entry) {
  std::size_t i = slot_of(entry->object, count);
  while (table[i]) i = (i + 1) & (count - 1);
  table[i] = entry;
}

void discard(ModuleEntry* entry) {
  py.DecRef(entry->weakref);
  std::free(entry->type);
  std::free(entry->path);
  std::free(entry);
}

// Makes room for one more: dead modules are dropped, and the table grows when the living fill a quarter of
// it.
bool reserve() {
  if (slots && (used + 1) * 2 <= slot_count) return true;
  std::size_t living = 0;
  for (std::size_t i = 0; i < slot_count; ++i) {
    if (slots[i] && refers_to(slots[i]->weakref, slots[i]->object)) ++living;
  }
  std::size_t count = slot_count ? slot_count : kFirstSlots;
  while ((living + 1) * 4 > count) count *= 2;
  auto** table = static_cast<ModuleEntry**>(std::calloc(count, sizeof(ModuleEntry*)));
  if (!table) return false;
  for (std::size_t i = 0; i < slot_count; ++i) {
    if (!slots[i]) continue;
    if (refers_to(slots[i]->weakref, slots[i]->object)) {
      place(table, count, slots[i]);
    } else {
      discard(slots[i]);
    }
  }
  std::free(slots);
  slots = table;
  slot_count = count;
  used = living;
  return true;
}

// Puts an entry for a live object in, or gives the one whose address is used again its new life. Takes
// `weakref` over and copies `type`. Calls no Python code that could come back here.
ModuleEntry* put(const PyObject* object, PyObject* weakref, const char* type) {
  ModuleEntry* entry = lookup(object);
  const bool fresh = entry == nullptr;
  char* type_copy = strdup(type);
  if (fresh && type_copy && reserve()) entry = static_cast<ModuleEntry*>(std::calloc(1, sizeof(ModuleEntry)));
  if (!type_copy || !entry) {
    std::free(type_copy);
    py.DecRef(weakref);
    return nullptr;
  }
  if (!fresh) {
    py.DecRef(entry->weakref);
    std::free(entry->type);
    std::free(entry->path);
  }
  *entry = ModuleEntry{};
  entry->object = object;
  entry->weakref = weakref;
  entry->type = type_copy;
  entry->number = next_module_number();
  entry->name_ref = entry->type_ref = format::kStrNone;
  if (fresh) {
    place(slots, slot_count, entry);
    ++used;
  }
  return entry;
}

ModuleEntry* find_or_add(PyObject* object) {
  if (ModuleEntry* entry = module_find(object)) return entry;
  PyObject* weakref = py.WeakrefNew(object, nullptr);
  PyObject* type = weakref ? py.ObjectType(object) : nullptr;
  PyObject* name = type ? py.ObjectGetAttrString(type, "__name__") : nullptr;
  const char* text = name ? py.UnicodeAsUtf8(name, nullptr) : nullptr;
  ModuleEntry* entry = nullptr;
  if (text) {
    entry = put(object, weakref, text);
  } else {
    py.ErrClear();
    if (weakref) py.DecRef(weakref);
  }
  // The type is alive as long as its instance, so letting go of it runs nothing.
  if (name) py.DecRef(name);
  if (type) py.DecRef(type);
  return entry;
}

void set_path(ModuleEntry* entry, const char* path, std::uint32_t depth) {
  if (entry->path && entry->depth >= depth) return;
  char* copy = strdup(path);
  if (!copy) return;
  std::free(entry->path);
  entry->path = copy;
  entry->depth = depth;
  entry->name_ref = format::kStrNone;  // to be interned again
}

// The (name, child) pairs of module._modules as a list, null when there are none. Owned by the caller.
PyObject* children_of(PyObject* module) {
  static PyObject* attribute = nullptr;
  if (!attribute) attribute = py.UnicodeIntern("_modules");
  PyObject* modules = attribute ? py.ObjectGenericGetAttr(module, attribute) : nullptr;
  if (!modules) {
    py.ErrClear();
    return nullptr;
  }
  PyObject* type = py.ObjectType(modules);
  PyObject* items = py.TypeIsSubtype(type, py.dict_type) ? py.DictItems(modules) : nullptr;
  if (!items) py.ErrClear();
  py.DecRef(type);
  py.DecRef(modules);
  return items;
}

struct Walk {
  std::uint64_t number;
  char path[kMaxPath];
};

void visit(Walk* walk, PyObject* module, std::size_t length, std::uint32_t depth) {
  ModuleEntry* entry = find_or_add(module);
  if (!entry || entry->walk == walk->number) return;
  entry->walk = walk->number;
  set_path(entry, walk->path, depth);
  if (depth >= kMaxDepth) return;
  PyObject* items = children_of(module);
  if (!items) return;
  const PySize count = py.ListSize(items);
  for (PySize i = 0; i < count; ++i) {
    PyObject* pair = py.ListGetItem(items, i);
    PyObject* child = py.TupleGetItem(pair, 1);
    if (child == py.none) continue;
    PySize name_length = 0;
    const char* name = py.UnicodeAsUtf8(py.TupleGetItem(pair, 0), &name_length);
    if (!name) {
      py.ErrClear();
      continue;
    }
    const std::size_t bytes = static_cast<std::size_t>(name_length);
    if (length + bytes + 2 > kMaxPath) continue;
    std::size_t end = length;
    if (end > 0) walk->path[end++] = '.';
    std::memcpy(walk->path + end, name, bytes);
    walk->path[end + bytes] = '\0';
    visit(walk, child, end + bytes, depth + 1);
    walk->path[length] = '\0';
  }
  py.DecRef(items);
}

}  // namespace

ModuleEntry* module_find(PyObject* object) {
  ModuleEntry* entry = lookup(object);
  return entry && refers_to(entry->weakref, object) ? entry : nullptr;
}

void module_walk(PyObject* root) {
  ModuleEntry* entry = find_or_add(root);
  if (!entry) return;
  Walk walk;
  walk.number = ++walks;
  walk.path[0] = '\0';
  std::uint32_t depth = 0;
  if (entry->path && std::strlen(entry->path) < kMaxPath) {
    std::strcpy(walk.path, entry->path);
    depth = entry->depth;
  }
  visit(&walk, root, std::strlen(walk.path), depth);
}

ModuleEntry* module_add_unplaced(PyObject* object) { return find_or_add(object); }

std::size_t module_roots(ModuleRoot* roots, std::size_t room) {
  const std::uint32_t capture = session_generation() << 1;  // the call may be older than the window
  std::size_t count = 0;
  for (std::size_t i = 0; i < slot_count && count < room; ++i) {
    const ModuleEntry* entry = slots[i];
    if (!entry || (entry->root_call & ~1u) != capture || !entry->path || *entry->path) continue;
    auto* object = const_cast<PyObject*>(entry->object);
    if (!refers_to(entry->weakref, object)) continue;
    py.IncRef(object);
    ModuleRoot root{object, entry->number, ""};
    std::snprintf(root.type, sizeof root.type, "%s", entry->type);
    std::size_t at = count++;
    for (; at > 0 && roots[at - 1].number > root.number; --at) roots[at] = roots[at - 1];
    roots[at] = root;
  }
  return count;
}

void module_refresh(ModuleEntry* entry) {
  const std::uint32_t generation = session_generation();
  if (entry->generation == generation && entry->name_ref != format::kStrNone) return;
  entry->generation = generation;
  entry->type_ref = intern(entry->type);
  if (entry->path) {
    entry->name_ref = *entry->path ? intern(entry->path) : entry->type_ref;
  } else {
    char name[kMaxPath];
    std::snprintf(name, sizeof name, "(%s)", entry->type);
    entry->name_ref = intern(name);
  }
}

}  // namespace tensortap::probe
