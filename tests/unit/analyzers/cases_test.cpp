// Text cases: analyzers_cases/*.case, each an input trace, a command, and what it must print and return.
//
//   # What it shows.
//   -- run
//   trace-analyze TRACE --top 3        a shell command; TRACE is the trace's path, FOLDER an empty folder
//   -- trace
//   {"kind":"meta",…}
//   -- exit 0
//   -- stdout
//   …
//   -- stderr
//   …
//
// TENSORTAP_UPDATE_CASES=1 writes what came out into the files: read the difference before you commit it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tensortap::analyzers {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string comment, run, trace, standard_output, standard_error;
  int exit_code = 0;
};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

Case parse(const fs::path& path) {
  Case out;
  std::istringstream lines(read_file(path));
  std::string* section = &out.comment;
  for (std::string line; std::getline(lines, line);) {
    if (line == "-- run")
      section = &out.run;
    else if (line == "-- trace")
      section = &out.trace;
    else if (line == "-- stdout")
      section = &out.standard_output;
    else if (line == "-- stderr")
      section = &out.standard_error;
    else if (line.rfind("-- exit ", 0) == 0)
      out.exit_code = std::stoi(line.substr(8));
    else
      *section += line + '\n';
  }
  return out;
}

std::string unparse(const Case& it) {
  return it.comment + "-- run\n" + it.run + "-- trace\n" + it.trace + "-- exit " +
         std::to_string(it.exit_code) + "\n-- stdout\n" + it.standard_output + "-- stderr\n" +
         it.standard_error;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

std::vector<fs::path> cases() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::directory_iterator(CASES_FOLDER)) {
    if (entry.path().extension() == ".case") out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

class TextCase : public ::testing::TestWithParam<fs::path> {};

TEST_P(TextCase, PrintsAndReturnsWhatItSays) {
  const Case wanted = parse(GetParam());
  const std::string pattern = (fs::temp_directory_path() / "tensortap-case-XXXXXX").string();
  std::vector<char> folder_name(pattern.begin(), pattern.end());
  folder_name.push_back('\0');
  ASSERT_NE(mkdtemp(folder_name.data()), nullptr);
  const fs::path folder = folder_name.data();
  const std::string trace = (folder / "trace.jsonl").string();
  std::ofstream(trace, std::ios::binary) << wanted.trace;

  std::string command = wanted.run;
  replace(command, "trace-analyze", TRACE_ANALYZE);
  replace(command, "TRACE", trace);
  replace(command, "FOLDER", folder.string());
  const std::string shell =
      "unset NO_COLOR; { " + command + "} >" + (folder / "out").string() + " 2>" + (folder / "err").string();
  const int status = std::system(shell.c_str());

  Case got = wanted;
  got.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  got.standard_output = read_file(folder / "out");
  got.standard_error = read_file(folder / "err");
  for (std::string* text : {&got.standard_output, &got.standard_error}) {
    replace(*text, trace, "TRACE");
    replace(*text, folder.string(), "FOLDER");
  }
  fs::remove_all(folder);
  if (std::getenv("TENSORTAP_UPDATE_CASES")) {
    std::ofstream(GetParam(), std::ios::binary) << unparse(got);
    return;
  }
  EXPECT_EQ(got.standard_output, wanted.standard_output);
  EXPECT_EQ(got.standard_error, wanted.standard_error);
  EXPECT_EQ(got.exit_code, wanted.exit_code);
}

INSTANTIATE_TEST_SUITE_P(Analyzers, TextCase, ::testing::ValuesIn(cases()), [](const auto& it) {
  std::string name = it.param.stem().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
});

}  // namespace
}  // namespace tensortap::analyzers
