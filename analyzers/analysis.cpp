#include "analyzers/analysis.h"

#include <boost/json/parse.hpp>
#include <string>
#include <utility>
#include <vector>

#include "analyzers/analyzer.h"
#include "analyzers/calls/call_tree.h"
#include "analyzers/calls/ext_fields.h"
#include "analyzers/run_header.h"
#include "format/line_reader.h"

namespace tensortap::analyzers {
namespace {

class MetaCatcher : public format::EventVisitor {
 public:
  void on_meta(const format::Meta& event, const format::Place&) override { meta = event; }
  std::optional<format::Meta> meta;
};

// The terminal record, kept beyond its line.
struct Terminal {
  format::Outcome outcome = format::Outcome::kComplete;
  std::uint64_t timestamp_ns = 0;
  std::string reason, ext;
  bool has_reason = false;
};

}  // namespace

// Sees every record first, shows it to the call tree and then to the analyzers.
struct Analysis::Impl : format::EventVisitor {
  CallTree tree;
  std::vector<std::unique_ptr<Analyzer>> analyzers = make_analyzers(tree);
  format::LineReader line_reader;
  format::Place next_line{0, 1, 0};
  std::string text;  // the lines at hand, with what the reader needs behind them
  std::uint64_t records = 0;
  boost::json::object stated_ledger;  // of a run that goes on
  std::uint64_t bad_lines = 0;
  bool truncated = false;
  std::optional<format::Meta> meta;
  std::optional<Terminal> terminal;
  Facts facts;
  std::function<void(std::uint64_t)> progress;

  Impl() {
    std::vector<CallVisitor*> visitors;
    for (const auto& analyzer : analyzers) visitors.push_back(analyzer.get());
    tree.set_visitors(std::move(visitors));
  }

  // `note`: what the record means to the tree and the facts. What follows the terminal record does not count:
  // it is told only to those that judge the stream.
  template <class Event, class Note>
  void show(void (format::EventVisitor::*function)(const Event&, const format::Place&), const Event& event,
            const format::Place& place, Note note) {
    ++records;
    if (progress && records % 32768 == 0) progress(records);
    const bool ended = terminal.has_value();
    if (!ended) note();
    for (const auto& analyzer : analyzers) {
      if (!ended || analyzer->judges_stream()) (analyzer.get()->*function)(event, place);
    }
  }
  void saw_time(std::uint64_t time_ns) { facts.latest_ns = std::max(facts.latest_ns, time_ns); }

  void on_meta(const format::Meta& event, const format::Place& place) override {
    show(&EventVisitor::on_meta, event, place, [&] {
      if (!meta) {
        meta = event;
        tree.on_meta(event);
      }
    });
  }
  void on_span_start(const format::SpanStart& event, const format::Place& place) override {
    show(&EventVisitor::on_span_start, event, place, [&] {
      saw_time(event.start_ns);
      if (event.step && *event.step != format::Step::kForward) facts.train = true;
      tree.on_span_start(event, place);
    });
  }
  void on_span_end(const format::SpanEnd& event, const format::Place& place) override {
    show(&EventVisitor::on_span_end, event, place, [&] {
      tree.on_span_end(event);
      if (const Span* span = tree.find(event.id)) saw_time(span->end_ns());
    });
  }
  void on_op(const format::Op& event, const format::Place& place) override {
    show(&EventVisitor::on_op, event, place, [&] {
      ++facts.operations;
      saw_time(saturating_add(event.timestamp_ns, event.duration_ns));
      tree.on_op(event);
    });
  }
  void on_tensor(const format::Tensor& event, const format::Place& place) override {
    show(&EventVisitor::on_tensor, event, place, [&] { ++facts.tensors; });
  }
  void on_tensor_stats(const format::TensorStats& event, const format::Place& place) override {
    show(&EventVisitor::on_tensor_stats, event, place, [] {});
  }
  void on_memory(const format::Memory& event, const format::Place& place) override {
    show(&EventVisitor::on_memory, event, place, [&] {
      ++facts.memory_events;
      saw_time(event.timestamp_ns);
      tree.on_memory(event);
    });
  }
  void on_device_memory(const format::DeviceMemory& event, const format::Place& place) override {
    show(&EventVisitor::on_device_memory, event, place, [&] {
      ++facts.device_memory_samples;
      saw_time(event.timestamp_ns);
    });
  }
  void on_device_interval(const format::DeviceInterval& event, const format::Place& place) override {
    show(&EventVisitor::on_device_interval, event, place, [] {});
  }
  void on_gradient(const format::Gradient& event, const format::Place& place) override {
    show(&EventVisitor::on_gradient, event, place, [&] { ++facts.gradients; });
  }
  void on_edge(const format::Edge& event, const format::Place& place) override {
    show(&EventVisitor::on_edge, event, place, [] {});
  }
  void on_terminal(const format::Terminal& event, const format::Place& place) override {
    show(&EventVisitor::on_terminal, event, place, [&] {
      terminal = Terminal{event.outcome, event.timestamp_ns, std::string(event.reason.value_or("")),
                          std::string(event.ext), event.reason.has_value()};
    });
  }

  ReportContext context() const;
};

ReportContext Analysis::Impl::context() const {
  ReportContext context;
  context.meta = meta ? &*meta : nullptr;
  context.latest_ns = facts.latest_ns;
  context.damaged = bad_lines != 0 || truncated;
  if (meta) context.diagnostics = parse_object(ExtFields(meta->ext).raw("diagnostics"));
  if (!terminal) {
    context.ledger = stated_ledger;
    return context;
  }
  context.outcome = terminal->outcome;
  context.reason = terminal->reason;
  context.has_reason = terminal->has_reason;
  context.terminal_ns = terminal->timestamp_ns;
  context.terminal_ext = parse_object(terminal->ext);
  const boost::json::value* ledger = context.terminal_ext.if_contains("ledger");
  if (!ledger || !ledger->is_object()) return context;
  context.ledger = ledger->get_object();
  if (const auto* dropped = context.ledger.if_contains("dropped"); dropped && dropped->is_object()) {
    for (const auto& cause : dropped->get_object()) {
      context.dropped = saturating_add(context.dropped, count_of(cause.value()));
    }
  }
  if (const auto* tail = context.ledger.if_contains("unknown_tail_bytes_max")) {
    context.tail_unknown = tail->is_null() || count_of(*tail) != 0;  // null: no bound is known
  }
  return context;
}

Analysis::Analysis() : impl_(std::make_unique<Impl>()) {}
Analysis::~Analysis() = default;
Analysis::Analysis(Analysis&&) noexcept = default;
Analysis& Analysis::operator=(Analysis&&) noexcept = default;

void Analysis::consume_lines(std::string_view lines) {
  impl_->text.assign(lines);
  impl_->text.append(format::kReadableBehind, ' ');
  impl_->line_reader.read_lines(std::string_view(impl_->text.data(), lines.size()), impl_->next_line, *impl_,
                                [this](const format::Error&) { ++impl_->bad_lines; });
}

format::ReadReport Analysis::consume(format::TraceReader& reader,
                                     std::function<void(std::uint64_t)> progress) {
  impl_->progress = std::move(progress);
  format::ReadReport report = reader.read_all(*impl_);
  impl_->progress = nullptr;
  impl_->bad_lines += report.bad_lines;
  impl_->truncated = impl_->truncated || report.truncated;
  return report;
}

void Analysis::replace_meta(std::string_view meta_line) {
  MetaCatcher catcher;
  if (impl_->line_reader.read(meta_line, format::Place{0, 1, 0}, catcher) && catcher.meta) {
    impl_->meta = std::move(catcher.meta);
  }
}

void Analysis::state_ledger(boost::json::object ledger) { impl_->stated_ledger = std::move(ledger); }

boost::json::object Analysis::report() const {
  const ReportContext context = impl_->context();
  boost::json::object out;
  out["schema"] = "tensortap/report/1";
  out["run"] = run_header(context);
  out["input"] = {
      {"records", impl_->records}, {"bad_lines", impl_->bad_lines}, {"truncated", impl_->truncated}};
  for (const auto& analyzer : impl_->analyzers) out[analyzer->name()] = analyzer->report(context);
  return out;
}

Analysis::Facts Analysis::facts() const {
  Facts facts = impl_->facts;
  facts.open_spans = impl_->tree.totals().open;
  facts.has_meta = impl_->meta.has_value();
  facts.has_terminal = impl_->terminal.has_value();
  return facts;
}

}  // namespace tensortap::analyzers
