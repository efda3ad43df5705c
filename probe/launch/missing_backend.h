// A backend for the job's torch, before the job starts: is there one, and if not, build it.
//
//   const MissingBackend missing{.library_folder = …, .program = find_program("tensortap-build-backend")};
//   provide_backend(libtorch_cpu, place);
//
// Thread rules: one thread. Reads lists and libraries; `build_backend` starts a child and waits for it.
#pragma once

#include <string>

namespace tensortap::probe {

// A libtorch_cpu as a file, loaded by nobody.
struct TorchFile {
  std::string path;
  std::string version;   // "1.13" or "2.15.0", "" when not known
  std::string build_id;  // hex, "" when it has none
  bool cxx11 = true;     // which C++ ABI: the new std::string?
};

TorchFile describe_torch_file(const std::string& libtorch_cpu);

// Does a backends.txt (its text) have one that fits?
bool list_has_backend(const std::string& list, const TorchFile& torch);

// The user's folder of backends built on the spot, for the libtensortap.so in `library_folder`; "" when there
// is none to speak of (no HOME). Ends with a slash.
std::string backend_cache_folder(const std::string& library_folder);

// Is there a backend for it, beside the library or in the user's folder?
bool has_backend(const TorchFile& torch, const std::string& library_folder, const std::string& cache_folder);

// Runs `program` (tensortap-build-backend), whose words go to standard error. True when it built one.
bool build_backend(const std::string& program, const std::string& libtorch_cpu,
                   const std::string& cache_folder, bool quiet);

}  // namespace tensortap::probe
