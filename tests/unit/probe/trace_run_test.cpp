// trace-run with the real collectord: exit codes, signals, process groups, what stays behind. Jobs are small
// shell scripts; jobs with torch are in tests/e2e.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>

#include "tests/unit/probe/process.h"

namespace tensortap::tests {
namespace {

namespace fs = std::filesystem;

const std::string kTraceRun = std::string(BIN_FOLDER) + "/trace-run";

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

class TraceRun : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directory(runtime()); }
  // Nothing of a launch may stay behind: neither a collector nor a private folder.
  void TearDown() override {
    EXPECT_TRUE(eventually([this] { return keepers_and_collectors() == 0; })) << "processes stayed behind";
    EXPECT_TRUE(eventually([this] { return fs::is_empty(runtime()); })) << "private folders stayed behind";
  }

  std::string runtime() const { return home_ / "r"; }
  std::string state() const { return home_ / "state"; }
  Environment environment() const {
    return {{"HOME", home_.path()}, {"XDG_RUNTIME_DIR", runtime()}, {"XDG_STATE_HOME", state()}};
  }
  static std::vector<std::string> command(std::vector<std::string> words) {
    words.insert(words.begin(), kTraceRun);
    return words;
  }
  Ended trace_run(const std::vector<std::string>& words) const { return run(command(words), environment()); }
  Ended shell(const std::string& script) const { return trace_run({"--", "/bin/sh", "-c", script}); }

  // trace-run, its keepers and collectors that know this test's home.
  int keepers_and_collectors() const {
    int found = 0;
    for (const auto& entry : fs::directory_iterator("/proc")) {
      const std::string pid = entry.path().filename();
      if (pid.find_first_not_of("0123456789") != std::string::npos) continue;
      const std::string command_line = read_file("/proc/" + pid + "/cmdline");
      if (!has(command_line, "trace-run") && !has(command_line, "collectord")) continue;
      if (has(read_file("/proc/" + pid + "/environ"), home_.path())) ++found;
    }
    return found;
  }

  TempFolder home_;
};

TEST_F(TraceRun, exits_with_the_jobs_status_and_leaves_its_output_alone) {
  const Ended ended = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(ended.exit_code, 7);
  EXPECT_EQ(ended.out, "out\n");
  EXPECT_EQ(ended.err.find("err\n"), 0U) << ended.err;
  EXPECT_TRUE(has(ended.err, "no process of the job loaded torch")) << ended.err;
}

TEST_F(TraceRun, exits_with_128_plus_the_signal_that_killed_the_job) {
  EXPECT_EQ(shell("kill -KILL $$").exit_code, 137);
  EXPECT_EQ(shell("kill -SEGV $$").exit_code, 139);
}

TEST_F(TraceRun, quiet_says_nothing) {
  const Ended ended = trace_run({"--quiet", "--", "/bin/sh", "-c", "exit 3"});
  EXPECT_EQ(ended.exit_code, 3);
  EXPECT_EQ(ended.out + ended.err, "");
}

TEST_F(TraceRun, the_job_gets_the_probe_and_the_socket_and_stays_in_the_process_group) {
  const Ended ended = shell(
      "echo $LD_PRELOAD; test -S \"$TENSORTAP_SOCKET\" && echo socket; echo ${#TENSORTAP_LAUNCH}; "
      "read a b c parent group rest < /proc/$$/stat; read a b c d parents_group rest < /proc/$parent/stat; "
      "test $group = $parents_group && echo group");
  EXPECT_EQ(ended.out, fs::canonical(PRELOAD).string() + "\nsocket\n32\ngroup\n") << ended.err;
}

TEST_F(TraceRun, a_command_that_is_not_there_or_no_program_is_said_as_a_shell_says_it) {
  EXPECT_EQ(trace_run({"--", "no-such-command-here"}).exit_code, 127);
  EXPECT_EQ(trace_run({"--", "/no/such/file"}).exit_code, 127);
  EXPECT_EQ(trace_run({"--", "/tmp"}).exit_code, 126);
  write_file(home_ / "text", "no program");
  EXPECT_EQ(trace_run({"--", home_ / "text"}).exit_code, 126);
  fs::permissions(home_ / "text", fs::perms::owner_all);
  write_file(home_ / "text", "#!/no/such/interpreter\n");
  EXPECT_EQ(trace_run({"--", home_ / "text"}).exit_code, 127);
  EXPECT_FALSE(fs::exists(state() + "/tensortap/private")) << "no collector was needed";
}

class PassedSignal : public TraceRun, public ::testing::WithParamInterface<int> {};

TEST_P(PassedSignal, sent_to_trace_run_reaches_the_job) {
  const std::string ready = home_ / "ready";
  Child launcher(command({"--", "/bin/sh", "-c", "touch " + ready + "; exec sleep 30"}), environment());
  ASSERT_TRUE(eventually([&] { return fs::exists(ready); })) << launcher.err();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until sh became sleep
  ::kill(launcher.pid(), GetParam());
  EXPECT_EQ(launcher.wait().exit_code, 128 + GetParam());
}

INSTANTIATE_TEST_SUITE_P(Signals, PassedSignal,
                         ::testing::Values(SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM));

TEST_F(TraceRun, a_signal_to_the_whole_group_reaches_the_job_and_not_the_private_collector) {
  const std::string ready = home_ / "ready";
  Child launcher(command({"--", "/bin/sh", "-c",
                          "trap 'exit 9' INT; touch " + ready + "; while :; do sleep 0.05; done"}),
                 environment(), true);
  ASSERT_TRUE(eventually([&] { return fs::exists(ready); })) << launcher.err();
  ::kill(-launcher.pid(), SIGINT);
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.exit_code, 9);
  EXPECT_TRUE(has(ended.err, "no trace")) << "the collector still answered: " << ended.err;
}

TEST_F(TraceRun, stops_and_goes_on_with_the_job) {
  const std::string ready = home_ / "ready", go = home_ / "go";
  Child launcher(command({"--quiet", "--", "/bin/sh", "-c",
                          "touch " + ready + "; while ! test -e " + go + "; do sleep 0.05; done; exit 4"}),
                 environment(), true);
  ASSERT_TRUE(eventually([&] { return fs::exists(ready); }));
  const auto process_state = [&] {
    const std::string stat = read_file("/proc/" + std::to_string(launcher.pid()) + "/stat");
    return stat.substr(stat.rfind(')') + 2, 1);
  };
  ::kill(launcher.pid(), SIGTSTP);
  EXPECT_TRUE(eventually([&] { return process_state() == "T"; }));
  write_file(go, "");
  ::kill(launcher.pid(), SIGCONT);
  EXPECT_EQ(launcher.wait().exit_code, 4);
}

TEST_F(TraceRun, exec_becomes_the_job_and_its_collector_ends_after_it) {
  Child launcher(
      command({"--exec", "--", "/bin/sh", "-c", "echo $$; test -S \"$TENSORTAP_SOCKET\" && wait; exit 5"}),
      environment());
  const pid_t pid = launcher.pid();
  const Ended ended = launcher.wait();
  EXPECT_EQ(ended.out, std::to_string(pid) + "\n");
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.exit_code, 5);
}

TEST_F(TraceRun, a_killed_trace_run_leaves_no_collector_behind) {
  const std::string ready = home_ / "ready", go = home_ / "go";
  pid_t job = 0;
  {
    Child launcher(command({"--", "/bin/sh", "-c",
                            "echo $$ > " + ready + "; while ! test -e " + go + "; do sleep 0.05; done"}),
                   environment());
    ASSERT_TRUE(eventually([&] { return !read_file(ready).empty(); }));
    job = std::stoi(read_file(ready));
  }  // SIGKILL
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(::kill(job, 0), 0) << "the job itself goes on";
  EXPECT_EQ(keepers_and_collectors(), 2) << "keeper and collector stay as long as the job";
  write_file(go, "");
}

TEST_F(TraceRun, says_that_children_of_the_job_go_on_and_keeps_the_collector_for_them) {
  const std::string go = home_ / "go";
  const Ended ended = shell("(while ! test -e " + go + "; do sleep 0.05; done) > /dev/null 2>&1 & exit 0");
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_TRUE(has(ended.err, "processes of the job still run")) << ended.err;
  EXPECT_EQ(keepers_and_collectors(), 2);
  write_file(go, "");
}

TEST_F(TraceRun, two_at_once_share_a_state_folder) {
  const std::string go = home_ / "go", ready = home_ / "ready";
  Child first(command({"--", "/bin/sh", "-c",
                       "touch " + ready + "; while ! test -e " + go + "; do sleep 0.05; done"}),
              environment());
  ASSERT_TRUE(eventually([&] { return fs::exists(ready); }));
  EXPECT_EQ(shell("exit 6").exit_code, 6);
  write_file(go, "");
  EXPECT_EQ(first.wait().exit_code, 0);
}

TEST_F(TraceRun, uses_a_collector_that_listens_and_leaves_it_running) {
  const std::string socket = home_ / "s";
  Child daemon({std::string(BIN_FOLDER) + "/collectord", "--listen", socket, "--state", home_ / "d"},
               environment());
  ASSERT_TRUE(eventually([&] { return fs::exists(socket); })) << daemon.err();
  const Ended ended = trace_run(
      {"--socket", socket, "--state", home_ / "unused", "--", "/bin/sh", "-c", "echo $TENSORTAP_SOCKET"});
  EXPECT_EQ(ended.out, socket + "\n");
  EXPECT_TRUE(has(ended.err, "--state is not used")) << ended.err;
  EXPECT_FALSE(fs::exists(home_ / "unused"));
  EXPECT_TRUE(fs::exists(socket));
}

TEST_F(TraceRun, bad_input_is_one_line_and_exit_code_125) {
  write_file(home_ / "file", "");
  const auto one_line = [](const Ended& ended, const std::string& words) {
    EXPECT_EQ(ended.exit_code, 125);
    EXPECT_EQ(ended.err.find('\n'), ended.err.size() - 1) << ended.err;
    EXPECT_TRUE(has(ended.err, words)) << ended.err;
  };
  one_line(trace_run({"--state", (home_ / "file") + "/below", "--", "true"}), "choose another with --state");
  one_line(run(command({"--", "true"}), {{"HOME", ""}, {"XDG_RUNTIME_DIR", runtime()}}),
           "name one with --state");

  const int stranger = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string socket = home_ / "stranger";
  socket.copy(address.sun_path, socket.size());
  ASSERT_EQ(::bind(stranger, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(stranger, 4), 0);
  std::thread answers([&] {
    const int peer = ::accept(stranger, nullptr, nullptr);
    (void)!::write(peer, "220 hello\n", 10);
    ::close(peer);
  });
  one_line(trace_run({"--socket", socket, "--", "true"}), "does not answer like collectord");
  answers.join();
  ::close(stranger);
}

TEST_F(TraceRun, a_missing_collectord_or_probe_is_named_with_the_remedy) {
  fs::create_directories(home_ / "i/bin");
  fs::copy_file(kTraceRun, home_ / "i/bin/trace-run");
  Environment bare = environment();
  bare["PATH"] = "/usr/bin:/bin";
  Ended ended = run({home_ / "i/bin/trace-run", "--", "true"}, bare);
  EXPECT_EQ(ended.exit_code, 125);
  EXPECT_TRUE(has(ended.err, "libtensortap.so is missing")) << ended.err;
  fs::create_directories(home_ / "i/lib/tensortap");
  fs::copy_file(PRELOAD, home_ / "i/lib/tensortap/libtensortap.so");
  ended = run({home_ / "i/bin/trace-run", "--", "true"}, bare);
  EXPECT_EQ(ended.exit_code, 125);
  EXPECT_TRUE(has(ended.err, "collectord is neither beside trace-run")) << ended.err;
}

}  // namespace
}  // namespace tensortap::tests
