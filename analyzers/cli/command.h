// The subcommands of trace-analyze: one file each, listed in trace_analyze.cpp.
//
//   class Cat final : public Command { … };
//   std::unique_ptr<Command> make_cat() { return std::make_unique<Cat>(); }
//
// Thread rules: the main thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

namespace tensortap::analyzers {

// Exit codes are part of the interface; a command may give them a closer meaning in its own help.
enum Exit : int {
  kExitOk = 0,
  kExitCannotWrite = 1,
  kExitUsage = 2,
  kExitUnreadable = 3,
};

class Command {
 public:
  virtual ~Command() = default;
  virtual const char* name() const = 0;
  virtual const char* purpose() const = 0;  // one line, for --help
  // Declares options on the command's own app; they are bound to this object.
  virtual void set_up(CLI::App& app) = 0;
  // The exit code of wrong usage.
  virtual int usage_exit() const { return kExitUsage; }
  // Returns the exit code. Called once, after parsing.
  virtual int run() = 0;
};

// One line on standard error, with the program's name before it.
void say(const std::string& text);

// What every command does at its end: standard output must have taken everything. `code`, or
// kExitCannotWrite.
int finish_output(int code);

std::unique_ptr<Command> make_report();
std::unique_ptr<Command> make_summary();   // candle-graph/summary/6
std::unique_ptr<Command> make_overview();  // candle-graph/overview/2
std::unique_ptr<Command> make_graph();     // candle-graph/graph/5
std::unique_ptr<Command> make_validate();
std::unique_ptr<Command> make_cat();

}  // namespace tensortap::analyzers
