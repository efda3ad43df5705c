// The parts of trace-run that need no other process: options, LD_PRELOAD's value, the collector's answers,
// the summary.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "probe/launch/flat_json.h"
#include "probe/launch/job.h"
#include "probe/launch/launch_processes.h"
#include "probe/launch/missing_backend.h"
#include "probe/launch/options.h"
#include "probe/launch/summary.h"
#include "probe/launch/torch_of_command.h"

namespace tensortap::probe {
namespace {

ParsedOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "trace-run");
  return parse_options(static_cast<int>(words.size()), words.data());
}

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }

TEST(LaunchOptions, everything_from_the_command_on_is_the_jobs) {
  const auto parsed = parse({"--quiet", "--socket", "/tmp/s", "python3", "--quiet", "--", "--exec"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.command, (std::vector<std::string>{"python3", "--quiet", "--", "--exec"}));
  EXPECT_EQ(parsed.options.socket, "/tmp/s");
  EXPECT_TRUE(parsed.options.quiet);
  EXPECT_FALSE(parsed.options.exec);
}

TEST(LaunchOptions, a_double_dash_lets_the_command_begin_with_a_dash) {
  const auto parsed = parse({"--state=/tmp/x", "--exec", "--", "-odd", "--help"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_EQ(parsed.options.command, (std::vector<std::string>{"-odd", "--help"}));
  EXPECT_EQ(parsed.options.state, "/tmp/x");
  EXPECT_TRUE(parsed.options.state_given);
}

TEST(LaunchOptions, folders_and_sockets_become_absolute) {
  const auto parsed = parse({"--state", "traces", "--socket", "s", "true"});
  ASSERT_FALSE(parsed.exit_code);
  EXPECT_EQ(parsed.options.state.front(), '/');
  EXPECT_EQ(parsed.options.socket.front(), '/');
}

TEST(LaunchOptions, wrong_usage_is_one_line_and_exit_code_2) {
  const std::string long_path = "/tmp/" + std::string(120, 'a');
  for (const auto& words : std::vector<std::vector<const char*>>{
           {}, {"--"}, {"--nonsense", "true"}, {"--socket"}, {"--socket", long_path.c_str(), "true"}}) {
    const auto parsed = parse(words);
    EXPECT_EQ(parsed.exit_code, kExitUsage);
    EXPECT_EQ(parsed.text.find('\n'), parsed.text.size() - 1) << parsed.text;
  }
}

TEST(LaunchOptions, a_long_socket_path_names_the_limit_and_the_remedy) {
  const std::string path = "/tmp/" + std::string(103, 'a');
  const auto parsed = parse({"--socket", path.c_str(), "true"});
  EXPECT_TRUE(has(parsed.text, "108 bytes") && has(parsed.text, "107") && has(parsed.text, "--socket"))
      << parsed.text;
  EXPECT_FALSE(parse({"--socket", path.substr(0, 107).c_str(), "true"}).exit_code);
}

TEST(PreloadList, ours_is_first_and_there_once) {
  EXPECT_EQ(preload_list("", "/t.so"), "/t.so");
  EXPECT_EQ(preload_list("/a.so /b.so", "/t.so"), "/t.so:/a.so:/b.so");
  EXPECT_EQ(preload_list("/a.so:/t.so:", "/t.so"), "/t.so:/a.so");
}

TEST(PreloadList, a_sanitizers_runtime_stays_in_front) {
  EXPECT_EQ(preload_list("/usr/lib/libasan.so.8:/a.so", "/t.so"), "/usr/lib/libasan.so.8:/t.so:/a.so");
  EXPECT_EQ(preload_list("libclang_rt.tsan.so", "/t.so"), "libclang_rt.tsan.so:/t.so");
}

TEST(FlatJson, reads_what_the_collector_answers) {
  const auto run = parse_flat_object(
      R"( {"kind":"run","pid":71,"reason":null,"exe":"\/a \"b\"\u00e9\ud83d\ude00\n","x":{"k":["}",1]},"ok":true} )");
  ASSERT_TRUE(run);
  EXPECT_EQ(member(*run, "kind"), "run");
  EXPECT_EQ(member(*run, "pid"), "71");
  EXPECT_EQ(member(*run, "reason"), "");
  EXPECT_EQ(member(*run, "exe"), "/a \"b\"\xC3\xA9\xF0\x9F\x98\x80\n");
  EXPECT_EQ(member(*run, "x"), R"({"k":["}",1]})");
  EXPECT_EQ(member(*run, "absent"), "");
}

TEST(FlatJson, refuses_what_is_no_object) {
  for (const char* text : {"", "{", "[]", "{\"a\"}", "{\"a\":}", "{\"a\":1", "{\"a\":\"\\q\"}",
                           "{\"a\":\"\\u12\"}", "{\"a\":{\"b\":1}", "{} x", "HTTP/1.1 400"}) {
    EXPECT_FALSE(parse_flat_object(text)) << text;
  }
}

TEST(FlatJson, quotes_so_that_it_reads_itself_back) {
  const std::string odd = "a\"\\\n\x01z";
  const auto object = parse_flat_object("{\"k\":" + json_quoted(odd) + "}");
  ASSERT_TRUE(object);
  EXPECT_EQ(member(*object, "k"), odd);
}

CollectedRun a_run(const std::string& state, pid_t pid) {
  return {.run = "r" + std::to_string(pid),
          .folder = "/s/runs/it's-" + std::to_string(pid),
          .state = state,
          .reason = state == "failed" ? "process died" : "",
          .exe = "/usr/bin/python3.11",
          .parent_run = "",
          .pid = pid};
}

TEST(Summary, names_each_trace_and_the_command_that_reads_it) {
  Outcome outcome;
  outcome.runs = {a_run("complete", 71), a_run("failed", 72)};
  const std::string text = summary(outcome);
  EXPECT_TRUE(has(text, "trace of python3.11 (pid 71) is complete")) << text;
  EXPECT_TRUE(has(text, "\n  trace-analyze '/s/runs/it'\\''s-71/trace.jsonl.zst'\n")) << text;
  EXPECT_TRUE(has(text, "(pid 72) ends early (process died)")) << text;
}

TEST(Summary, forked_workers_are_counted_with_their_parent) {
  Outcome outcome;
  outcome.runs = {a_run("complete", 71), a_run("complete", 72), a_run("complete", 73)};
  outcome.runs[1].parent_run = outcome.runs[2].parent_run = "r71";
  const std::string text = summary(outcome);
  EXPECT_TRUE(has(text, "with 2 forked workers")) << text;
  EXPECT_FALSE(has(text, "pid 72")) << text;
}

TEST(Summary, an_open_run_of_a_living_process_goes_on) {
  Outcome outcome;
  outcome.runs = {a_run("open", ::getpid())};
  EXPECT_TRUE(has(summary(outcome), "goes on, the process still runs"));
}

TEST(Summary, says_why_there_is_no_trace) {
  Outcome outcome;
  EXPECT_TRUE(has(summary(outcome), "no process of the job loaded torch"));
  outcome.probe_log = {"71 python3: no backend for /x/libtorch_cpu.so (version 2.6.0)"};
  EXPECT_TRUE(has(summary(outcome), "stayed disarmed"));
  EXPECT_TRUE(has(summary(outcome), "version 2.6.0"));
  outcome.probe_log = {"71 python3: started backend b for torch 1.13.1"};
  EXPECT_TRUE(has(summary(outcome), "no run reached the collector"));
  outcome.disabled = true;
  EXPECT_TRUE(has(summary(outcome), "TENSORTAP_DISABLE"));
}

TEST(Summary, a_torch_without_a_backend_is_named_once_with_the_command_that_builds_one) {
  Outcome outcome;
  outcome.builder = "/opt/tt/bin/tensortap-build-backend";
  const std::string line =
      " python3: no backend for /x y/libtorch_cpu.so (version 2.6.0, build-id unknown); there are "
      "backends for: 1.13.0. Build one with tensortap-build-backend --torch /x y/libtorch_cpu.so";
  outcome.probe_log = {"71" + line, "72" + line};
  const std::string text = summary(outcome);
  EXPECT_TRUE(has(text, "no backend for the torch /x y/libtorch_cpu.so (version 2.6.0); this builds one"))
      << text;
  const std::string command = "\n  /opt/tt/bin/tensortap-build-backend --torch '/x y/libtorch_cpu.so'\n";
  EXPECT_TRUE(has(text, command)) << text;
  EXPECT_EQ(text.find(command), text.rfind(command)) << text;
  EXPECT_FALSE(has(text, "71 python3")) << text;
  outcome.runs = {a_run("complete", 71)};  // another process of the job was traced
  EXPECT_TRUE(has(summary(outcome), command));
}

TEST(LaunchOptions, a_missing_backend_is_built_unless_the_user_says_no) {
  EXPECT_TRUE(parse({"true"}).options.build);
  EXPECT_FALSE(parse({"--no-build", "true"}).options.build);
  ::setenv("TENSORTAP_BUILD_BACKEND", "0", 1);
  EXPECT_FALSE(parse({"true"}).options.build);
  ::unsetenv("TENSORTAP_BUILD_BACKEND");
}

TEST(TorchOfCommand, the_first_line_of_a_script_names_its_interpreter) {
  EXPECT_EQ(interpreter_of_first_line("#!/venv/bin/python3 -u"), "/venv/bin/python3");
  EXPECT_EQ(interpreter_of_first_line("#!/usr/bin/env python3"), "python3");
  EXPECT_EQ(interpreter_of_first_line("#!/usr/bin/env -S A=1 python3 -u"), "python3");
  EXPECT_EQ(interpreter_of_first_line("\x7f"
                                      "ELF"),
            "");
  EXPECT_EQ(interpreter_of_first_line("#!"), "");
}

TEST(TorchOfCommand, the_loaders_list_names_libtorch_with_blanks_in_its_path) {
  EXPECT_EQ(
      torch_in_library_list("\tlibtorch.so => /x/libtorch.so (0x1)\n"
                            "\tlibtorch_cpu.so => /my torch/libtorch_cpu.so (0x00007f)\n\tlibc.so.6 (0x2)\n"),
      "/my torch/libtorch_cpu.so");
  EXPECT_EQ(torch_in_library_list("\tlibtorch_cpu.so => not found\n\tstatically linked\n"), "");
}

TEST(TorchOfCommand, shells_and_missing_commands_have_none) {
  EXPECT_FALSE(torch_of_command({"/bin/sh", "-c", "python3 train.py"}));
  EXPECT_FALSE(torch_of_command({"/nonexistent/python3"}));
}

TEST(MissingBackend, a_list_fits_by_build_or_by_version_and_abi) {
  TorchFile torch{.path = "/x/libtorch_cpu.so", .version = "2.6.0", .build_id = "", .cxx11 = false};
  EXPECT_TRUE(list_has_backend("- 2.6.0 libtensortap-torch-2.6.0-abi0.so\n", torch));
  EXPECT_FALSE(list_has_backend("- 2.6.0 libtensortap-torch-2.6.0-abi1.so\n", torch));
  EXPECT_FALSE(list_has_backend("- 2.6.1 libtensortap-torch-2.6.1-abi0.so\n", torch));
  EXPECT_FALSE(list_has_backend("", torch));
  torch.build_id = "c0ffee";
  EXPECT_TRUE(list_has_backend("c0ffee 2.6.0 mine.so\n", torch));
  torch.version = "";
  EXPECT_FALSE(list_has_backend("abcd 2.6.0 mine.so\n", torch));
}

TEST(LaunchProcesses, tokens_differ) { EXPECT_NE(make_launch_token(), make_launch_token()); }

}  // namespace
}  // namespace tensortap::probe
