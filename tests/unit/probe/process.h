// Runs a real program for a test: its own environment, captured output, a limit after which it is killed.
//
//   const Ended job = run({"/bin/sh", "-c", "exit 3"}, {{"LD_PRELOAD", library}});
//   EXPECT_EQ(job.exit_code, 3);
//
// Also TempFolder: a short path (sockets lie in it), removed at the end.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace tensortap::tests {

using Environment = std::map<std::string, std::string>;

struct Ended {
  int exit_code = -1;  // 128 + signal when killed
  std::string out;
  std::string err;
};

class TempFolder {
 public:
  TempFolder() {
    std::string name = "/tmp/ttt-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// True as soon as `condition` holds, false when it does not within the limit.
inline bool eventually(const std::function<bool()>& condition,
                       std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// A child that runs; output goes to files of its own.
class Child {
 public:
  Child(const std::vector<std::string>& command, const Environment& environment, bool own_group = false) {
    pid_ = ::fork();
    if (pid_ != 0) return;
    if (own_group)
      ::setpgid(0, 0);  // and not setsid: a group without a parent in its session ignores SIGTSTP
    ::dup2(::open("/dev/null", O_RDONLY), STDIN_FILENO);
    ::dup2(::open((files_ / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDOUT_FILENO);
    ::dup2(::open((files_ / "err").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), STDERR_FILENO);
    std::vector<std::string> variables;
    for (const char* kept : {"PATH", "HOME"}) {
      const char* value = std::getenv(kept);
      if (value != nullptr && !environment.contains(kept))
        variables.push_back(std::string(kept) + "=" + value);
    }
    for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
    execvpe(command[0].c_str(), pointers(command).data(), pointers(variables).data());
    ::_exit(99);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  std::string out() const { return read_file(files_ / "out"); }
  std::string err() const { return read_file(files_ / "err"); }

  Ended wait(std::chrono::milliseconds limit = std::chrono::seconds(60)) {
    int status = 0;
    const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, limit);
    if (!ended) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, &status, 0);
    }
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), out(),
            err() + (ended ? "" : "\n[killed by the test: it did not end]")};
  }

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& words) {
    std::vector<char*> out;
    for (const std::string& word : words) out.push_back(const_cast<char*>(word.c_str()));
    out.push_back(nullptr);
    return out;
  }

  TempFolder files_;
  pid_t pid_ = -1;
};

inline Ended run(const std::vector<std::string>& command, const Environment& environment = {}) {
  return Child(command, environment).wait();
}

}  // namespace tensortap::tests
