// Facts of a C++ module (format/module_nodes.h): its class and the settings of the torch::nn classes that
// cost formulas know, under the names that Python gives them.
#pragma once

#include <string_view>

#include "probe/core/node_writer.h"

namespace torch {
namespace nn {
class Module;
}
}  // namespace torch

namespace tensortap::probe {

// `static_type`: the class whose forward was called. The module must be alive.
void write_module_settings(NodeWriter& facts, const torch::nn::Module& module,
                           std::string_view static_type) noexcept;

}  // namespace tensortap::probe
