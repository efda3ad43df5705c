// Which libtorch_cpu a command is going to load, found without running the command.
//
// A python (or a script whose first line names one) is asked where its torch is, which does not import it. A
// program linked to torch is shown to its own dynamic loader (`ld.so --list`). For everything else - shells,
// wrappers, programs that open torch by themselves - there is no answer.
//
// Thread rules: one thread; starts short-lived children.
//
//   if (auto library = torch_of_command(options.command)) …   // "/…/torch/lib/libtorch_cpu.so"
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tensortap::probe {

std::optional<std::string> torch_of_command(const std::vector<std::string>& command);

// The interpreter that a script's first line names ("#!/usr/bin/env python3": "python3"); "" when it is none.
std::string interpreter_of_first_line(const std::string& first_line);
// The library named libtorch_cpu.so… in the output of `ld.so --list`; "" when there is none.
std::string torch_in_library_list(const std::string& text);

}  // namespace tensortap::probe
