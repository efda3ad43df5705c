// What a module call was given and returned, as a tree of nodes (format/module_nodes.h): tensors by what may
// be read of them, everything else by its type. Runs no code of the job's: tuples, lists and dictionaries are
// read as C objects, whatever their class does.
//
// With the GIL; no destructors (interpreter.h).
#pragma once

#include "probe/core/node_writer.h"
#include "probe/python/interpreter.h"

namespace tensortap::probe {

// `args` a tuple, `kwargs` a dictionary.
void write_call_args(NodeWriter& nodes, PyObject* args, PyObject* kwargs);
void write_node(NodeWriter& nodes, PyObject* object, int depth = 0);
// The class's name, into `text` (at most `room` bytes, zero-terminated).
void type_name(PyObject* type, char* text, unsigned room);

}  // namespace tensortap::probe
