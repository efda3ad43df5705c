// Counts a job's operators with PyTorch's own profiler: the truth that the tests hold traces against.
//
// The event tree is read, not the flat list: the flat list drops a call whose only child has the same name.
// "total" counts each `aten::` call, "top_level" those that no other `aten::` call encloses.
#include <torch/csrc/autograd/profiler_kineto.h>
#include <torch/csrc/profiler/collection.h>

#include <cstdio>
#include <map>

#include "tests/jobs/cpp/job.h"

namespace ttjob {
namespace {

struct Calls {
  std::uint64_t total = 0, top_level = 0;
};

void walk(const torch::profiler::impl::Result& event, bool inside, std::map<std::string, Calls>& by_name) {
  const std::string name = event.name();
  const bool aten = name.rfind("aten::", 0) == 0;
  if (aten) {
    ++by_name[name].total;
    if (!inside) ++by_name[name].top_level;
  }
  for (const auto& child : event.children_) walk(*child, inside || aten, by_name);
}

}  // namespace

int run_counted(int (*job)(const Options&), const Options& options, const std::string& path) {
  using torch::profiler::impl::ActivityType;
  using torch::profiler::impl::ProfilerConfig;
  using torch::profiler::impl::ProfilerState;
  const ProfilerConfig config(ProfilerState::KINETO);
  const std::set<ActivityType> activities{ActivityType::CPU};
  torch::autograd::profiler::prepareProfiler(config, activities);
  torch::autograd::profiler::enableProfiler(config, activities);
  const int code = job(options);
  const auto result = torch::autograd::profiler::disableProfiler();

  std::map<std::string, Calls> by_name;
  for (const auto& root : result->event_tree()) walk(*root, false, by_name);
  Calls all;
  std::string rows;
  for (const auto& [name, calls] : by_name) {
    all.total += calls.total;
    all.top_level += calls.top_level;
    rows += (rows.empty() ? "" : ",") + ("\n  \"" + name + "\": [") + std::to_string(calls.total) + ", " +
            std::to_string(calls.top_level) + "]";
  }
  std::FILE* file = std::fopen(path.c_str(), "w");
  if (file == nullptr) {
    std::perror(path.c_str());
    return 2;
  }
  std::fprintf(file, "{\"total\": %llu, \"top_level\": %llu, \"by_name\": {%s\n}}\n",
               static_cast<unsigned long long>(all.total), static_cast<unsigned long long>(all.top_level),
               rows.c_str());
  std::fclose(file);
  return code;
}

}  // namespace ttjob
