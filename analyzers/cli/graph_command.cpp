// trace-analyze graph TRACE: the candle-graph/graph/5 document of a trace, as the evidence packet embeds it.
// Exit codes are part of the interface (see kFooter).
#include <iostream>
#include <string>

#include "analyzers/candle/graph.h"
#include "analyzers/cli/command.h"
#include "analyzers/cli/run_input.h"
#include "analyzers/cli/strict_read.h"

namespace tensortap::analyzers {
namespace {

constexpr const char* kFooter =
    R"(The graph has a node for each span, operation and tensor, and an edge for each call and each flow of
data between them. It is made of complete and valid captures only.

Examples:
  trace-analyze graph run.jsonl.zst > graph.json
  trace-analyze graph run.jsonl.zst | jq '.spans[] | select(.kind == "module") | [.name, .host_total_time_ns]'

Exit codes:
  0  the graph was written
  1  the graph could not be written
  2  wrong usage
  3  not readable as a whole, a failed or invalid capture, or two nodes would have one id;
     nothing was written)";

class GraphCommand final : public Command {
 public:
  const char* name() const override { return "graph"; }
  const char* purpose() const override { return "the trace's candle-graph/graph/5 document (JSON)"; }

  void set_up(CLI::App& app) override {
    app.add_option("TRACE", trace_,
                   "trace.jsonl, trace.jsonl.zst, - for standard input, or a folder that holds one")
        ->required();
    app.footer(kFooter);
  }

  int run() override {
    const auto found = find_run(trace_);
    if (!found) return refuse_trace(found.error(), trace_);
    candle::Graph graph;
    const format::Status status = read_strictly(found->trace, graph, [&] { return graph.finish(); });
    if (!status) return refuse_trace(status.error(), found->trace);
    candle::JsonOut json(std::cout);
    candle::write_graph(json, graph);
    return finish_output(kExitOk);
  }

 private:
  std::string trace_;
};

}  // namespace

std::unique_ptr<Command> make_graph() { return std::make_unique<GraphCommand>(); }

}  // namespace tensortap::analyzers
