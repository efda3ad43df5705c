#include "probe/python/gradients.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "probe/core/capture.h"
#include "probe/core/gradients.h"
#include "probe/python/module_facts.h"
#include "probe/python/module_table.h"
#include "probe/python/python_tensor.h"

namespace tensortap::probe {

namespace {

constexpr std::size_t kMaxRoots = 256;
constexpr std::size_t kMaxKey = 1024;
constexpr int kMaxDepth = 200;

// The addresses met in this pass, of modules and of parameters: open addressing, a power of two of places, at
// most half full. Kept for the next pass; the GIL protects it.
const void** seen = nullptr;
std::size_t seen_places = 0;
std::size_t seen_count = 0;

bool grow() {
  const std::size_t places = seen_places ? seen_places * 2 : 1024;
  auto** table = static_cast<const void**>(std::calloc(places, sizeof(void*)));
  if (!table) return false;
  for (std::size_t i = 0; i < seen_places; ++i) {
    if (!seen[i]) continue;
    std::size_t at = (reinterpret_cast<std::uintptr_t>(seen[i]) >> 4) & (places - 1);
    while (table[at]) at = (at + 1) & (places - 1);
    table[at] = seen[i];
  }
  std::free(seen);
  seen = table;
  seen_places = places;
  return true;
}

// True the first time. Also false when memory is out.
bool first_time(const void* address) {
  if ((seen_count + 1) * 2 > seen_places && !grow()) return false;
  std::size_t at = (reinterpret_cast<std::uintptr_t>(address) >> 4) & (seen_places - 1);
  while (seen[at]) {
    if (seen[at] == address) return false;
    at = (at + 1) & (seen_places - 1);
  }
  seen[at] = address;
  ++seen_count;
  return true;
}

struct Pass {
  const char* root;
  char key[kMaxKey];
};

// Appends a name to the path of `length` bytes. 0: too long.
std::size_t append(Pass* pass, std::size_t length, PyObject* name) {
  PySize bytes = 0;
  const char* text = py.UnicodeAsUtf8(name, &bytes);
  if (!text) py.ErrClear();
  if (!text || length + static_cast<std::size_t>(bytes) + 2 > kMaxKey) return 0;
  if (length > 0) pass->key[length++] = '.';
  std::memcpy(pass->key + length, text, static_cast<std::size_t>(bytes));
  length += static_cast<std::size_t>(bytes);
  pass->key[length] = '\0';
  return length;
}

void note_parameters(Pass* pass, PyObject* module, std::size_t length) {
  PyObject* parameters = own_dictionary_member(module, "_parameters");
  if (!parameters) return;
  PySize at = 0;
  PyObject* name = nullptr;
  PyObject* value = nullptr;
  while (py.DictNext(parameters, &at, &name, &value)) {
    if (value == py.none) continue;
    PyObject* type = py.ObjectType(value);
    const void* impl = tensor_impl(value, type);
    py.DecRef(type);
    if (!impl || !first_time(impl) || append(pass, length, name) == 0) continue;
    py.IncRef(value);
    note_gradient(pass->root, pass->key, impl);
    py.DecRef(value);
  }
  py.DecRef(parameters);
}

void visit(Pass* pass, PyObject* module, std::size_t length, int depth) {
  if (depth > kMaxDepth || !first_time(module)) return;
  note_parameters(pass, module, length);
  PyObject* children = own_dictionary_member(module, "_modules");
  if (!children) return;
  PySize at = 0;
  PyObject* name = nullptr;
  PyObject* child = nullptr;
  while (py.DictNext(children, &at, &name, &child)) {
    if (child == py.none) continue;
    const std::size_t longer = append(pass, length, name);
    if (longer == 0) continue;
    py.IncRef(child);
    visit(pass, child, longer, depth + 1);
    py.DecRef(child);
  }
  py.DecRef(children);
}

// The root's class, with its number when an earlier root is of the same class, and the step.
void name_root(const ModuleRoot* roots, std::size_t at, std::uint64_t step, char* name, std::size_t room) {
  bool alone = true;
  for (std::size_t i = 0; i < at; ++i) alone &= std::strcmp(roots[i].type, roots[at].type) != 0;
  char number[24] = "";
  if (!alone)
    std::snprintf(number, sizeof number, "#%llu", static_cast<unsigned long long>(roots[at].number));
  std::snprintf(name, room, "%s%s@%llu", roots[at].type, number, static_cast<unsigned long long>(step));
}

void note_all(std::uint64_t step) {
  static ModuleRoot roots[kMaxRoots];
  const std::size_t count = module_roots(roots, kMaxRoots);
  if (seen) std::memset(seen, 0, seen_places * sizeof(void*));
  seen_count = 0;
  static Pass pass;
  static char name[160];
  for (std::size_t i = 0; i < count; ++i) {
    name_root(roots, i, step, name, sizeof name);
    pass.root = name;
    pass.key[0] = '\0';
    visit(&pass, roots[i].object, 0, 0);
  }
  for (std::size_t i = 0; i < count; ++i) py.DecRef(roots[i].object);
}

}  // namespace

bool python_note_gradients(std::uint64_t step) {
  if (!py.GilThisThread || !interpreter_usable() || !py.GilThisThread()) return false;
  const bool held = py.GilCheck();
  const int state = held ? 0 : py.GilEnsure();
  if (!py.ErrOccurred()) note_all(step);
  if (!held) py.GilRelease(state);
  return true;
}

}  // namespace tensortap::probe
