// Where the daemon listens and keeps its runs when nobody says otherwise: one rule for collectord, trace-run
// and the probe, so that they meet without being told.
//
//   socket   $TENSORTAP_SOCKET, else $XDG_RUNTIME_DIR/tensortap.sock, else /run/user/<uid>/tensortap.sock if
//   that folder
//            exists, else /tmp/tensortap-<uid>.sock
//   state    $XDG_STATE_HOME/tensortap, else $HOME/.local/state/tensortap, else nothing (the caller must ask)
//
//   std::string path = format::default_socket_path();
//
// Relative XDG folders are ignored, as the XDG specification wants it. Thread rules: reads the environment,
// so not while another thread changes it. C++17, no dependency: used inside the job too.
#pragma once

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <string>

namespace tensortap::format {

// sun_path holds 108 bytes with its NUL.
inline constexpr std::size_t kMaxSocketPathBytes = 107;

inline std::string environment_folder(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && value[0] == '/' ? std::string(value) : std::string();
}

inline std::string default_socket_path() {
  const char* given = std::getenv("TENSORTAP_SOCKET");
  if (given != nullptr && given[0] != '\0') return given;
  std::string folder = environment_folder("XDG_RUNTIME_DIR");
  if (!folder.empty()) return folder + "/tensortap.sock";
  const std::string uid = std::to_string(::getuid());
  folder = "/run/user/" + uid;
  struct stat status {};
  if (::stat(folder.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return folder + "/tensortap.sock";
  return "/tmp/tensortap-" + uid + ".sock";
}

// Empty when neither XDG_STATE_HOME nor HOME is set.
inline std::string default_state_folder() {
  std::string folder = environment_folder("XDG_STATE_HOME");
  if (!folder.empty()) return folder + "/tensortap";
  folder = environment_folder("HOME");
  return folder.empty() ? folder : folder + "/.local/state/tensortap";
}

}  // namespace tensortap::format
