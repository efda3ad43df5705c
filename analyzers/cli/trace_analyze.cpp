// trace-analyze: what a trace says, offline. The commands are in files of their own; without one: the report.
#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "analyzers/cli/command.h"
#include "analyzers/render/table.h"

namespace tensortap::analyzers {

// Names of files and texts of traces are in it: nothing in them may steer the terminal.
void say(const std::string& text) { std::cerr << "trace-analyze: " << printable(text) << '\n'; }

int finish_output(int code) {
  std::cout.flush();
  if (std::cout) return code;
  say("the output could not be written to standard output");
  return kExitCannotWrite;
}

}  // namespace tensortap::analyzers

namespace {

using namespace tensortap::analyzers;  // NOLINT(google-build-using-namespace): a program's main file

std::vector<std::unique_ptr<Command>> all_commands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(make_summary());
  commands.push_back(make_overview());
  commands.push_back(make_graph());
  commands.push_back(make_validate());
  commands.push_back(make_cat());
  return commands;
}

// Options of the report that stand before another command's word would be lost in silence.
const CLI::Option* misplaced(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() != 0) return option;
  }
  return nullptr;
}

// A standard descriptor that is closed would be the number of the next file that is opened, and messages
// would go into it. It becomes one that fails as a closed one does.
void hold_standard_descriptors() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // open() takes the lowest number that is free: this one.
    if (::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd) return;
  }
}

int parse_and_run(int argc, char** argv) {
  CLI::App app("Reports where the time and memory of a traced PyTorch job went.", "trace-analyze");
  app.set_version_flag("--version", std::string("trace-analyze ") + TENSORTAP_VERSION);
  const std::unique_ptr<Command> report = make_report();
  report->set_up(app);
  const auto commands = all_commands();
  Command* chosen = nullptr;
  for (const auto& command : commands) {
    CLI::App* sub = app.add_subcommand(command->name(), command->purpose());
    command->set_up(*sub);
    sub->callback([&chosen, &command] { chosen = command.get(); });
  }
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (app.exit(error) == 0) return kExitOk;
    for (const auto& command : commands) {
      if (app.got_subcommand(command->name())) return command->usage_exit();
    }
    return kExitUsage;
  }
  if (chosen == nullptr) return report->run();
  if (const CLI::Option* option = misplaced(app)) {
    say(option->get_name() + " before \"" + chosen->name() +
        "\" belongs to the report; options of a command stand behind its word");
    return chosen->usage_exit();
  }
  return chosen->run();
}

}  // namespace

int main(int argc, char** argv) try {
  hold_standard_descriptors();
  return parse_and_run(argc, argv);
} catch (const std::exception& fault) {
  say(fault.what());
  return kExitUnreadable;
}
