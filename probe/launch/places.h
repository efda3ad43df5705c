// Where things are: the programs and the library that belong to trace-run, the job's command, folders to
// make.
//
// Thread rules: none of its own; reads the environment and the file system.
//
//   auto preload = find_preload_library();
//   if (!preload) fail(preload.error().message);
#pragma once

#include <optional>
#include <string>

#include "format/result.h"

namespace tensortap::probe {

// The folder that trace-run itself lies in, symbolic links resolved.
std::string program_folder();

// libtensortap.so of this build or installation. LD_PRELOAD can't hold a path with a blank or a colon: that
// is an error too.
format::Result<std::string> find_preload_library();

// A program beside trace-run, else in PATH. Absolute; kNotFound.
format::Result<std::string> find_program(const std::string& name);

// The command as execvp would find it: 0, or ENOENT / EACCES … as errno.
int check_command(const std::string& command);

// Where execvp finds the command; nothing when it does not.
std::optional<std::string> find_command(const std::string& command);

// Makes the folder and its parents; an error when it can't be made or written to.
format::Status make_state_folder(const std::string& path);

// A fresh folder of mode 0700 with a path short enough for a socket in it (XDG_RUNTIME_DIR, else /tmp).
format::Result<std::string> make_private_folder();

// Removes our files in a private folder, then the folder. Nothing else is touched.
void remove_private_folder(const std::string& folder);

std::string private_socket(const std::string& folder);  // <folder>/collector.sock
std::string private_log(const std::string& folder);  // <folder>/probe.log: what the probes' preload parts say

}  // namespace tensortap::probe
