// Facts of a module object that a trace carries with its first call (format/module_nodes.h): its class,
// whether that is one of torch's own with torch's own forward, and the settings that cost formulas use.
//
// They are read from the object's __dict__ and from its class, by look-ups of C: no property, __getattr__ or
// other code of the job runs. Settings are those of a fixed list of names; texts longer than a few words, and
// objects that are no plain values, are named by their type.
//
// With the GIL; no destructors (interpreter.h).
#pragma once

#include <cstdint>

#include "probe/core/node_writer.h"
#include "probe/python/interpreter.h"

namespace tensortap::probe {

void write_module_facts(NodeWriter& facts, PyObject* module);
// kModeTrainingKnown and kModeTraining (format/ring_record.h) by the module's own flag.
std::uint8_t training_mode(PyObject* module);
// module.__dict__[name], a new reference; null when it isn't there.
PyObject* own_member(PyObject* module, const char* name);
// The same, when it is a dictionary.
PyObject* own_dictionary_member(PyObject* module, const char* name);

}  // namespace tensortap::probe
