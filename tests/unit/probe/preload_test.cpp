// libtensortap.so in real processes: what it finds, when it arms, and what it leaves alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <sstream>

#include "tests/unit/probe/process.h"

namespace tensortap::tests {
namespace {

namespace fs = std::filesystem;

const std::string kParts = PARTS;
const std::string kJob = kParts + "/preload_job";
const std::string kLinkedJob = kParts + "/preload_job_linked";
const std::string kDebianTorch = kParts + "/debian/libtorch_cpu.so.1.13";

// An installation of its own: the preload library, backends, a list.
class Preload : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy_file(PRELOAD, library());
    for (const char* name : {"good.so", "other.so", "wrong_abi.so"}) {
      fs::copy_file(kParts + "/backends/" + name, folder_ / name);
    }
    list("- 1.13.1 good.so\n");
  }
  std::string library() const { return folder_ / "libtensortap.so"; }
  void list(const std::string& text) const { write_file(folder_ / "backends.txt", text); }
  std::string report_path() const { return folder_ / "report"; }
  std::string report() const { return read_file(report_path()); }
  std::string log() const { return read_file(folder_ / "log"); }

  Environment environment(Environment more = {}) const {
    more.emplace("LD_PRELOAD", library());
    more.emplace("FAKE_BACKEND_REPORT", report_path());
    more.emplace("TENSORTAP_LOG", folder_ / "log");
    return more;
  }
  Ended job(std::vector<std::string> steps, const Environment& more = {},
            const std::string& program = kJob) const {
    steps.insert(steps.begin(), program);
    return run(steps, environment(more));
  }
  // pip's layout: <folder>/torch/lib/libtorch_cpu.so and <folder>/torch/version.py
  std::string pip_torch(const std::string& version_line) const {
    fs::create_directories(folder_ / "torch/lib");
    fs::copy_file(kParts + "/pip/libtorch_cpu.so", folder_ / "torch/lib/libtorch_cpu.so");
    write_file(folder_ / "torch/version.py", version_line);
    return folder_ / "torch/lib/libtorch_cpu.so";
  }

  TempFolder folder_;
};

int count(const std::string& text, const std::string& word) {
  int found = 0;
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++found;
  return found;
}

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

TEST(PreloadLibrary, needs_no_library_but_libc) {
  const Ended readelf = run({"readelf", "-dW", PRELOAD});
  ASSERT_EQ(readelf.exit_code, 0) << readelf.err;
  std::istringstream lines(readelf.out);
  for (std::string line; std::getline(lines, line);) {
    if (!has(line, "(NEEDED)")) continue;
    EXPECT_TRUE(has(line, "[libc.so.") || has(line, "[ld-linux")) << line;
  }
}

TEST(PreloadLibrary, exports_dlopen_and_what_attaching_and_the_sdk_need_only) {
  const Ended nm = run({"nm", "-D", "--defined-only", "--format=just-symbols", PRELOAD});
  ASSERT_EQ(nm.exit_code, 0) << nm.err;
  EXPECT_EQ(nm.out,
            "dlopen\ntensortap_attach\ntensortap_preload_marker\ntensortap_preload_state\ntensortap_sdk\n");
}

TEST_F(Preload, leaves_a_program_without_torch_alone) {
  const std::vector<std::string> steps = {"dlopen",  "libm.so.6", "dlopen-self", "dlopen", "/nonexistent.so",
                                          "threads", "sockets",   "exit",        "4"};
  std::vector<std::string> plain = steps;
  plain.insert(plain.begin(), kJob);
  const Ended without = run(plain);
  const Ended with = job(steps);
  EXPECT_TRUE(has(with.out, "1 threads\n0 sockets\n")) << with.out;
  EXPECT_EQ(with.out, without.out);
  EXPECT_EQ(with.err, without.err);
  EXPECT_EQ(with.exit_code, 4);
  EXPECT_EQ(report() + log(), "");
}

TEST_F(Preload, arms_before_main_in_a_program_linked_to_torch) {
  const Ended ended = job({"exists", report_path()}, {}, kLinkedJob);
  EXPECT_EQ(ended.out, "torch 1\nthere\n");
  EXPECT_TRUE(has(report(), "start linked=1 initialised=1 main_thread=1")) << report();
  EXPECT_TRUE(has(log(), "started backend")) << log();
}

TEST_F(Preload, arms_from_its_own_thread_after_a_late_torch_is_initialised) {
  const Ended ended = job({"dlopen", kDebianTorch, "wait-file", report_path(), "sleep-ms", "50", "threads"},
                          {{"FAKE_TORCH_INIT_MS", "300"}});
  EXPECT_EQ(ended.out, "opened\nthere\n1 threads\n") << "the watcher ends once it has armed";
  EXPECT_TRUE(has(report(), "start linked=0 initialised=1 main_thread=0 signals_blocked=1")) << report();
}

TEST_F(Preload, keeps_the_callers_runpath_for_dlopen) {
  // preload_job has RUNPATH $ORIGIN/x; the library is nowhere else.
  EXPECT_EQ(job({"dlopen", "libspeaks_of_torch.so"}).out, "opened\n");
}

TEST_F(Preload, waits_cheaply_for_a_torch_that_never_comes) {
  const Ended ended = job({"dlopen", "libspeaks_of_torch.so", "sleep-ms", "1500", "threads", "cpu"});
  ASSERT_TRUE(has(ended.out, "opened\n2 threads\n")) << ended.out;
  EXPECT_LT(std::stol(ended.out.substr(ended.out.rfind("threads\n") + 8)), 60'000) << "microseconds of CPU";
  EXPECT_EQ(report(), "");
}

TEST_F(Preload, notices_at_the_next_dlopen_a_torch_that_came_under_an_innocent_name) {
  const Ended ended = job({"dlopen", "libplugin.so", "dlopen", "libm.so.6", "wait-file", report_path()});
  EXPECT_EQ(ended.out, "opened\nopened\nthere\n");
}

TEST_F(Preload, loaded_into_a_running_job_it_waits_for_its_settings_and_arms_on_its_own_thread) {
  const Environment plain = {{"LD_PRELOAD", ""}, {"TENSORTAP_LOG", ""}};
  const std::string settings =
      "socket=/run/a socket\nlaunch=0123\nlog=" + (folder_ / "attach.log") + "\ncapture=steps 3:5\n";
  const Ended ended = job({"dlopen", library(), "sleep-ms", "50", "threads", "exists", report_path(),
                           "attach", settings, "wait-file", report_path(), "attach", settings, "exit", "9"},
                          plain, kLinkedJob);
  EXPECT_EQ(ended.exit_code, 9);
  EXPECT_EQ(ended.out, "torch 1\nopened\n1 threads\nmissing\nattach 0\nthere\nattach " +
                           std::to_string(EALREADY) + "\n");
  EXPECT_TRUE(has(report(), "start linked=0 initialised=1 main_thread=0 signals_blocked=1")) << report();
  EXPECT_TRUE(has(report(), "attached=1 socket=/run/a socket launch=0123 capture=steps 3:5")) << report();
  EXPECT_EQ(count(report(), "start "), 1) << report();
  EXPECT_EQ(count(report(), "exit 9"), 1) << report();
  EXPECT_TRUE(has(read_file(folder_ / "attach.log"), "started backend"));
}

TEST_F(Preload, settings_that_it_does_not_understand_change_nothing) {
  const std::string einval = "attach " + std::to_string(EINVAL) + "\n";
  const Ended ended =
      job({"dlopen", library(), "attach", "socket=/a\nnonsense=1\n", "attach", "socket", "attach",
           "launch=" + std::string(300, 'x'), "threads", "attach", "", "wait-file", report_path()},
          {{"LD_PRELOAD", ""}}, kLinkedJob);
  EXPECT_EQ(ended.out, "torch 1\nopened\n" + einval + einval + einval + "1 threads\nattach 0\nthere\n");
  EXPECT_TRUE(has(report(), "attached=1 socket=none launch=none")) << report();
}

TEST_F(Preload, a_preloaded_library_is_not_attached_a_second_time) {
  const Ended ended = job({"attach", "socket=/a\n"}, {}, kLinkedJob);
  EXPECT_EQ(ended.out, "torch 1\nattach " + std::to_string(EALREADY) + "\n");
  EXPECT_TRUE(has(report(), "attached=0 socket=none")) << report();
}

TEST_F(Preload, a_second_copy_stays_quiet) {
  fs::copy_file(PRELOAD, folder_ / "second.so");
  const Environment both = {{"LD_PRELOAD", library() + ":" + (folder_ / "second.so")}};
  EXPECT_EQ(job({"exit", "3"}, both, kLinkedJob).exit_code, 3);
  EXPECT_EQ(count(report(), "start "), 1) << report();
  EXPECT_EQ(count(report(), "exit 3"), 1) << report();
  fs::remove(report_path());
  EXPECT_EQ(job({"dlopen", kDebianTorch, "wait-file", report_path()}, both).out, "opened\nthere\n");
  EXPECT_EQ(count(report(), "start "), 1) << report();
}

TEST_F(Preload, tells_the_backend_the_exit_status_after_the_jobs_own_handlers) {
  EXPECT_EQ(job({"at-exit", "exit", "7"}, {}, kLinkedJob).exit_code, 7);
  const std::size_t own = report().find("job's own handler");
  const std::size_t ours = report().find("exit 7");
  ASSERT_NE(own, std::string::npos) << report();
  ASSERT_NE(ours, std::string::npos) << report();
  EXPECT_LT(own, ours);
}

TEST_F(Preload, a_forked_child_that_loads_torch_itself_is_armed_there) {
  const Ended ended = job({"dlopen", "libspeaks_of_torch.so", "fork", "dlopen", kDebianTorch, "wait-file",
                           report_path(), "exit", "5"});
  EXPECT_EQ(ended.exit_code, 5);
  EXPECT_EQ(ended.out, "opened\nopened\nthere\n");
  EXPECT_EQ(count(report(), "start "), 1) << report();
  EXPECT_EQ(count(report(), "exit 5"), 1) << "the parent never had torch:\n" << report();
}

TEST_F(Preload, a_child_forked_before_the_watcher_has_armed_arms_by_itself_or_inherits) {
  for (int i = 0; i < 20; ++i) {
    fs::remove(report_path());
    const Ended ended = job({"dlopen", kDebianTorch, "fork", "wait-file", report_path(), "exit", "6"});
    ASSERT_EQ(ended.exit_code, 6) << ended.err;
    ASSERT_EQ(ended.out, "opened\nthere\n") << i;
  }
}

TEST_F(Preload, children_forked_while_the_watcher_looks_can_use_the_loader) {
  const Ended ended = job({"dlopen", "libspeaks_of_torch.so", "fork-often", "300"});
  EXPECT_EQ(ended.out, "opened\n0 bad children\n");
}

TEST_F(Preload, is_switched_off_by_its_variable) {
  const Environment off = {{"TENSORTAP_DISABLE", "1"}};
  EXPECT_EQ(job({"exit", "3"}, off, kLinkedJob).exit_code, 3);
  EXPECT_EQ(job({"dlopen", kDebianTorch, "sleep-ms", "100", "threads"}, off).out, "opened\n1 threads\n");
  EXPECT_EQ(report() + log(), "");
}

TEST_F(Preload, the_same_build_goes_before_the_same_version) {
  list("- 1.13.1 good.so\n00c0ffee 1.13.0 other.so\n");
  job({}, {}, kLinkedJob);
  EXPECT_TRUE(has(report(), "backend=other")) << report();
}

TEST_F(Preload, takes_the_version_from_the_python_package) {
  list("- 2.14.0 other.so\n- 2.15.0 good.so\n");
  const std::string torch = pip_torch("# generated\n__version__ = '2.15.0+cu130'\ndebug = False\n");
  EXPECT_EQ(job({"dlopen", torch, "wait-file", report_path()}).out, "opened\nthere\n");
  EXPECT_TRUE(has(report(), "backend=good")) << report();
}

TEST_F(Preload, stays_out_and_says_why_in_the_log_when_no_backend_fits) {
  const std::string torch = pip_torch("__version__ = '2.6.0'\n");
  const Ended ended =
      job({"dlopen", torch, "wait-file", folder_ / "log", "sleep-ms", "50", "threads", "exit", "2"});
  EXPECT_EQ(ended.out, "opened\nthere\n1 threads\n");
  EXPECT_EQ(ended.err, "");
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_EQ(report(), "");
  EXPECT_EQ(count(log(), "\n"), 1);
  EXPECT_TRUE(has(log(), "no backend for " + torch + " (version 2.6.0")) << log();
  EXPECT_TRUE(has(log(), "1.13.1")) << log();
}

TEST_F(Preload, without_a_log_nothing_is_written_anywhere) {
  list("- 2.15.0 good.so\n");
  const Ended ended = job({"exit", "0"}, {{"TENSORTAP_LOG", ""}}, kLinkedJob);
  EXPECT_EQ(ended.out + ended.err, "torch 1\n");
  EXPECT_EQ(report() + log(), "");
}

TEST_F(Preload, tries_the_next_fitting_backend_when_one_cannot_be_loaded) {
  list("- 1.13.1 missing.so\n- 1.13.1 wrong_abi.so\n- 1.13.1 good.so\n");
  job({}, {}, kLinkedJob);
  EXPECT_TRUE(has(report(), "backend=good")) << report();
  EXPECT_TRUE(has(log(), "missing.so can't be loaded")) << log();
  EXPECT_TRUE(has(log(), "speaks ABI 999")) << log();
}

TEST_F(Preload, a_backend_that_refuses_is_not_told_of_the_exit) {
  job({}, {{"FAKE_BACKEND_ERROR", "111"}}, kLinkedJob);
  EXPECT_EQ(count(report(), "start "), 1);
  EXPECT_EQ(count(report(), "exit "), 0);
  EXPECT_TRUE(has(log(), "stays disarmed: Connection refused")) << log();
}

TEST_F(Preload, a_named_backend_goes_before_the_list) {
  list("");
  job({}, {{"TENSORTAP_BACKEND", folder_ / "other.so"}}, kLinkedJob);
  EXPECT_TRUE(has(report(), "backend=other")) << report();
}

TEST_F(Preload, names_the_remedy_when_there_is_no_list) {
  fs::remove(folder_ / "backends.txt");
  job({}, {}, kLinkedJob);
  EXPECT_TRUE(has(log(), "no backends.txt beside " + library())) << log();
}

// A user's cache with one backend for the key of this installation.
class PreloadCache : public Preload {
 protected:
  void SetUp() override {
    Preload::SetUp();
    list("");
    write_file(folder_ / "backend-key", "9.9-abi1-0123\n");
    fs::create_directories(cached());
    fs::permissions(cached(), fs::perms::owner_all);
    fs::copy_file(folder_ / "good.so", cached() + "good.so");
    cached_list("- 1.13.0 good.so\n");
  }
  std::string cached() const { return folder_ / "cache/tensortap/backends/9.9-abi1-0123/"; }
  void cached_list(const std::string& text) const { write_file(cached() + "backends.txt", text); }
  Ended cached_job(Environment more = {}) const {
    more.emplace("XDG_CACHE_HOME", folder_ / "cache");
    return job({"exit", "3"}, more, kLinkedJob);
  }
};

TEST_F(PreloadCache, a_backend_built_on_the_spot_is_used) {
  EXPECT_EQ(cached_job().exit_code, 3);
  EXPECT_TRUE(has(report(), "backend=good")) << report() << log();
  fs::remove(folder_ / "backends.txt");
  fs::remove(report_path());
  cached_job();
  EXPECT_TRUE(has(report(), "backend=good")) << "without a list of its own:\n" << log();
}

TEST_F(PreloadCache, the_same_build_in_the_cache_goes_before_the_same_version_beside_the_library) {
  list("- 1.13.0 other.so\n");
  cached_job();
  EXPECT_TRUE(has(report(), "backend=other")) << report();
  fs::remove(report_path());
  cached_list("00c0ffee 1.13.0 good.so\n");
  cached_job();
  EXPECT_TRUE(has(report(), "backend=good")) << report();
}

TEST_F(PreloadCache, a_named_folder_goes_before_the_users) {
  fs::create_directory(folder_ / "named");
  fs::copy_file(folder_ / "other.so", folder_ / "named/other.so");
  write_file(folder_ / "named/backends.txt", "- 1.13.0 other.so\n");
  cached_job({{"TENSORTAP_BACKENDS", folder_ / "named"}});
  EXPECT_TRUE(has(report(), "backend=other")) << report() << log();
}

TEST_F(PreloadCache, what_another_version_of_tensortap_built_is_not_used) {
  write_file(folder_ / "backend-key", "9.9-abi2-0123\n");
  EXPECT_EQ(cached_job().exit_code, 3);
  EXPECT_EQ(report(), "");
  EXPECT_TRUE(has(log(), "tensortap-build-backend --torch " + kParts)) << log();
}

TEST_F(PreloadCache, a_folder_that_others_may_write_to_is_not_used_and_that_is_said) {
  for (const fs::perms open : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(cached(), fs::perms::owner_all | open);
    EXPECT_EQ(cached_job().exit_code, 3);
    EXPECT_EQ(report(), "");
    EXPECT_TRUE(has(log(), "backends in " + cached() + " are not used")) << log();
    fs::remove(folder_ / "log");
  }
}

TEST_F(PreloadCache, a_symbolic_link_in_its_place_is_not_followed) {
  fs::rename(folder_ / "cache/tensortap/backends/9.9-abi1-0123", folder_ / "moved");
  fs::create_directory_symlink(folder_ / "moved", folder_ / "cache/tensortap/backends/9.9-abi1-0123");
  cached_job();
  EXPECT_EQ(report(), "");
  EXPECT_TRUE(has(log(), "are not used")) << log();
}

TEST_F(Preload, finds_its_backends_when_it_is_preloaded_through_a_symbolic_link) {
  TempFolder elsewhere;
  fs::create_symlink(library(), elsewhere / "tap.so");
  job({}, {{"LD_PRELOAD", elsewhere / "tap.so"}}, kLinkedJob);
  EXPECT_TRUE(has(report(), "backend=good")) << report();
}

}  // namespace
}  // namespace tensortap::tests
