// What module calls carry behind their records: facts of the module object, and trees of what it was given
// and returned. Reads the binary form, writes members of an `ext` object.
//
//   facts   kString class (module and qualname), kBool exact, kInt n, then n times kString name and a value
//   args    kTuple of the positional arguments' nodes, kMapping of the keyword arguments'
//   output  one node
//
// A node is a kTensor, kNone, kTuple, kList, kMapping, kScalar or kObject (ring_record.h). Values of scalars,
// keys that are no plain names and contents of tensors are never recorded. C++17; no dependency.
#pragma once

#include <cstdint>
#include <string>

#include "format/ring_record.h"

namespace tensortap::format {

// The readable bytes behind a record's fixed part.
struct NodeBytes {
  const unsigned char* at;
  const unsigned char* end;
};

inline constexpr int kMaxNodeDepth = 16;

// Appends `"class":…,"exact":…,"config":{…}`. False: malformed, `out` may hold a part. Bytes that are not
// UTF-8 are counted in `replaced` (here and below).
bool append_module_facts(std::string& out, NodeBytes& bytes, std::uint64_t& replaced);
// Appends `"args":[…]` and, when there are any, `,"kwargs":{…}`.
bool append_call_args(std::string& out, NodeBytes& bytes, std::uint64_t& replaced);
// Appends one node as an object with a `kind`.
bool append_node(std::string& out, NodeBytes& bytes, std::uint64_t& replaced, int depth = 0);

}  // namespace tensortap::format
