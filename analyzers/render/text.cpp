#include "analyzers/render/text.h"

#include <algorithm>
#include <boost/json/value.hpp>
#include <vector>

#include "analyzers/health/explanations.h"
#include "analyzers/render/report_view.h"
#include "analyzers/render/table.h"
#include "analyzers/render/units.h"

namespace tensortap::analyzers {
namespace {

// One section after the other, appended to `out_`.
class TextReport {
 public:
  TextReport(const boost::json::value& report, const TextOptions& options)
      : report_(report),
        options_(options),
        style_{options.colour},
        width_(std::max<std::size_t>(options.width, 60)) {}

  std::string render() {
    header();
    steps();
    operators();
    modules();
    ranges();
    threads();
    memory();
    not_seen();
    problems();
    return std::move(out_);
  }

 private:
  void header();
  void steps();
  void operators();
  void modules();
  void ranges();
  void threads();
  void memory();
  void not_seen();
  void problems();

  void section(std::string_view title, std::string_view note = "", bool partial = false);
  void field(std::string_view name, const std::string& text);
  void note(const std::string& text) { out_ += "  " + style_.dim(text) + '\n'; }
  void put(const Table& table) { out_ += table.render(width_, style_); }
  void counted(const std::string& count, const std::string& message, std::string_view code);
  void further(std::size_t all, std::size_t shown, std::string_view what);
  std::vector<ReportView> sorted(const ReportView& rows) const;
  std::string job() const;
  std::string step_count() const;
  std::string ledger() const;
  void breakdown(const ReportView& parts, std::uint64_t whole, bool nested);
  void shares(std::string_view what, std::string_view none, const ReportView& rows, std::uint64_t whole);

  ReportView report_;
  const TextOptions& options_;
  Style style_;
  std::size_t width_;
  std::string out_;
};

// "1 call", "12 345 calls"
std::string some(std::uint64_t count, std::string_view noun) {
  return count_text(count) + ' ' + std::string(noun) + (count == 1 ? "" : "s");
}

std::string time_of(const ReportView& figure) { return figure.known() ? duration_text(figure.value()) : "?"; }

void TextReport::section(std::string_view title, std::string_view note, bool partial) {
  out_ += '\n' + style_.bold(title);
  if (!note.empty()) out_ += "  " + style_.dim(note);
  if (partial) out_ += "  " + style_.warn("partial");
  out_ += '\n';
}

void TextReport::field(std::string_view name, const std::string& text) {
  if (text.empty()) return;
  out_ +=
      "  " + style_.dim(name) + std::string(10 - std::min<std::size_t>(name.size(), 9), ' ') + text + '\n';
}

// "    12  operators that …  (before_window)"
void TextReport::counted(const std::string& count, const std::string& message, std::string_view code) {
  const std::size_t width = display_width(count);
  out_ += "  " + std::string(7 - std::min<std::size_t>(width, 7), ' ') + count + "  " + message + "  " +
          style_.dim("(" + printable(code) + ")") + '\n';
}

void TextReport::further(std::size_t all, std::size_t shown, std::string_view what) {
  if (all > shown) note("… and " + some(all - shown, "more " + std::string(what)));
}

std::string TextReport::job() const {
  const ReportView run = report_["run"];
  std::string command;
  for (const auto& word : run["command"].items()) {
    if (!command.empty()) command += ' ';
    command += ReportView(word).text();
  }
  if (command.empty()) command = run["exe"].text();
  if (command.empty()) command = run["entrypoint"].text();
  std::string tail;
  if (run["pid"].present()) tail += "  pid " + std::to_string(run["pid"].number());
  if (run["rank"].present()) {
    tail += "  rank " + std::to_string(run["rank"].number());
    if (run["world_size"].present()) tail += " of " + std::to_string(run["world_size"].number());
  }
  return cut_middle(printable(command), width_ - 14 - std::min(width_ - 34, tail.size())) + tail;
}

std::string TextReport::step_count() const {
  const ReportView steps = report_["timing"]["steps"];
  if (!steps["complete"].known() && !steps["open"].known()) return "";
  std::string text = some(steps["complete"].value(), "step");
  if (const auto open = steps["open"].value()) text += " and " + count_text(open) + " open";
  if (const auto cut = steps["cut"].value()) text += " and " + count_text(cut) + " cut";
  return text;
}

void TextReport::header() {
  const ReportView run = report_["run"];
  const ReportView timing = report_["timing"];
  out_ += style_.bold("tensortap report") + '\n';
  field("job", job());
  std::string what;
  for (const std::string& part : {run["torch"].text(), run["phase"].text(), run["device"].text()}) {
    if (!part.empty()) what += (what.empty() ? "" : ", ") + printable(part);
  }
  field(run["torch"].present() ? "torch" : "run", what);
  const std::string outcome = run["outcome"].text();
  std::string end = outcome == "complete" ? style_.good(outcome)
                    : outcome == "failed" ? style_.bad(outcome)
                                          : style_.warn(outcome);
  if (run["reason"].present()) end += ": " + printable(run["reason"].text());
  field("outcome", end);
  std::string duration =
      timing["duration"].known() ? duration_text(timing["duration"].value()) : "unknown: no measured region";
  if (timing["duration"].known() && timing["duration"].partial()) duration += " at least";
  if (const std::string count = step_count(); !count.empty()) duration += ", " + count;
  field("measured", duration);
  const ReportView input = report_["input"];
  std::string trace = some(input["records"].number(), "record");
  if (const auto bad = input["bad_lines"].number()) trace += ", " + style_.bad(some(bad, "bad line"));
  if (input["truncated"].is_true()) trace += ", " + style_.bad("cut off at its end");
  field("trace", trace);
  field("ledger", ledger());
}

// "16 120 records offered, 16 117 stored, 3 dropped (ring_full 3)"; "" when nobody kept an account.
std::string TextReport::ledger() const {
  const ReportView ledger = report_["run"]["ledger"];
  if (!ledger["offered"].present()) return "";
  const std::string unit = ledger["unit"].text() == "line" ? "line" : "record";
  std::string text = some(ledger["offered"].number(), unit) + " offered, " +
                     count_text(ledger["stored"].number()) + " stored";
  std::string causes;
  std::uint64_t dropped = 0;
  for (const auto& [cause, count] : ledger["dropped"].members()) {
    const std::uint64_t number = ReportView(count).number();
    if (number == 0) continue;
    dropped += number;
    causes += (causes.empty() ? "" : ", ") + printable(std::string(cause)) + ' ' + count_text(number);
  }
  text += dropped == 0 ? ", none dropped"
                       : ", " + style_.bad(count_text(dropped) + " dropped") + " (" + causes + ")";
  const ReportView tail = ledger["unknown_tail_bytes_max"];
  if (tail.is_null()) {
    text += ", " + style_.warn("the end unknown");
  } else if (tail.number() != 0) {
    text += ", " + style_.warn("up to " + bytes_text(tail.number()) + " of the end unknown");
  }
  return text;
}

void TextReport::breakdown(const ReportView& parts, std::uint64_t whole, bool nested) {
  std::string line;
  for (const char* part : {"forward", "backward", "optimizer", "other"}) {
    const ReportView figure = nested ? parts[part]["total"] : parts[part];
    if (!figure.known() || (figure.value() == 0 && std::string_view(part) != "other")) continue;
    line += (line.empty() ? "  " : "   ") + std::string(part) + ' ' + duration_text(figure.value());
    if (const std::string share = share_text(figure.value(), whole); !share.empty())
      line += ' ' + style_.dim(share);
  }
  if (!line.empty()) out_ += line + '\n';
}

void TextReport::steps() {
  const ReportView steps = report_["timing"]["steps"];
  if (steps["complete"].value() == 0) {
    const ReportView phases = report_["timing"]["phases"];
    if (!phases["forward"]["total"].known() && !phases["backward"]["total"].known()) return;
    section("Phases", "no complete step was recorded");
    breakdown(phases, report_["timing"]["duration"].value(), true);
    return;
  }
  section("Steps", step_count(), steps["complete"].partial());
  out_ += "  min " + time_of(steps["min"]) + "   median " + time_of(steps["median"]) + "   mean " +
          time_of(steps["mean"]) + "   max " + time_of(steps["max"]) + '\n';
  const boost::json::array& slowest = steps["list"]["slowest"].items();
  if (slowest.size() > 1) {
    out_ += "  slowest";
    for (const auto& value : slowest) {
      const ReportView step(value);
      out_ +=
          "  step " + count_text(step["number"].number()) + ' ' + duration_text(step["duration"].number());
    }
    out_ += '\n';
  }
  breakdown(steps, steps["total"].value(), false);
}

std::vector<ReportView> TextReport::sorted(const ReportView& rows) const {
  std::vector<ReportView> out;
  for (const auto& row : rows.items()) out.emplace_back(row);
  const char* key = options_.sort == SortBy::kSelf    ? "self"
                    : options_.sort == SortBy::kTotal ? "total"
                                                      : "calls";
  std::stable_sort(out.begin(), out.end(), [&](const ReportView& a, const ReportView& b) {
    return a[key].number() > b[key].number();
  });
  return out;
}

std::string sort_title(std::string_view what, SortBy sort) {
  const char* by = sort == SortBy::kSelf    ? " by self time"
                   : sort == SortBy::kTotal ? " by total time"
                                            : " by calls";
  return std::string(what) + by;
}

void TextReport::operators() {
  const ReportView operators = report_["timing"]["operators"];
  const ReportView counts = report_["counts"];
  if (operators["rows"].items().empty()) {
    section("Operators", "none were recorded");
    return;
  }
  section(sort_title("Operators", options_.sort),
          some(counts["operators"].value(), "call") + ", " + count_text(counts["top_level"].value()) +
              " of them top-level",
          operators["total_self"].partial());
  const std::uint64_t whole = operators["total_self"].value();
  Table table({"operator", "calls", "top-level", "total", "self", "self %", "self/call"});
  const std::vector<ReportView> rows = sorted(operators["rows"]);
  for (std::size_t i = 0; i < rows.size() && i < options_.top; ++i) {
    const ReportView& row = rows[i];
    const std::uint64_t calls = std::max<std::uint64_t>(row["calls"].number(), 1);
    table.add({printable(row["name"].text()), count_text(row["calls"].number()),
               count_text(row["top_level"].number()), duration_text(row["total"].number()),
               duration_text(row["self"].number()), share_text(row["self"].number(), whole),
               duration_text(row["self"].number() / calls)});
  }
  put(table);
  further(rows.size(), options_.top, "operator");
}

void TextReport::modules() {
  const ReportView modules = report_["timing"]["modules"];
  if (modules["rows"].items().empty()) return;
  section(sort_title("Modules", options_.sort), "", modules["columns"]["self"].partial());
  const std::uint64_t whole = report_["timing"]["duration"].value();
  Table table({"module", "type", "calls", "total", "total %", "self"});
  const std::vector<ReportView> rows = sorted(modules["rows"]);
  for (std::size_t i = 0; i < rows.size() && i < options_.top; ++i) {
    const ReportView& row = rows[i];
    const std::string path = row["name"].text();
    table.add({path.empty() ? "(root)" : printable(path), cut_middle(printable(row["type"].text()), 24),
               count_text(row["calls"].number()), duration_text(row["total"].number()),
               share_text(row["total"].number(), whole), duration_text(row["self"].number())});
  }
  put(table);
  further(rows.size(), options_.top, "module");
}

void TextReport::ranges() {
  const ReportView ranges = report_["timing"]["ranges"];
  Table table({"range", "calls", "total", "self"});
  std::size_t users = 0;
  for (const ReportView& row : sorted(ranges["rows"])) {
    if (row["autograd"].is_true()) continue;
    if (users++ >= options_.top) continue;
    table.add({printable(row["name"].text()), count_text(row["calls"].number()),
               duration_text(row["total"].number()), duration_text(row["self"].number())});
  }
  if (users == 0) return;
  section(sort_title("Ranges", options_.sort), "", ranges["columns"]["self"].partial());
  put(table);
  further(users, options_.top, "range");
}

void TextReport::threads() {
  const ReportView threads = report_["timing"]["threads"];
  const auto& rows = threads["rows"].items();
  if (rows.size() < 2) return;  // says nothing that the operators don't
  std::vector<ReportView> busiest;
  for (const auto& row : rows) busiest.emplace_back(row);
  std::stable_sort(busiest.begin(), busiest.end(), [](const ReportView& a, const ReportView& b) {
    return a["busy"].number() > b["busy"].number();
  });
  section("Threads", "time inside top-level operators", threads["columns"]["busy"].partial());
  Table table({"thread", "operators", "top-level", "busy"});
  for (std::size_t i = 0; i < busiest.size() && i < options_.top; ++i) {
    const ReportView& row = busiest[i];
    table.add({row["thread"].present() ? std::to_string(row["thread"].number()) : "not known",
               count_text(row["operators"].number()), count_text(row["top_level"].number()),
               duration_text(row["busy"].number())});
  }
  put(table);
  further(busiest.size(), options_.top, "thread");
}

void TextReport::shares(std::string_view what, std::string_view none, const ReportView& rows,
                        std::uint64_t whole) {
  const auto& items = rows.items();
  // One row without a name would say only that nothing is known.
  if (items.empty() || (items.size() == 1 && !ReportView(items[0])["name"].present())) return;
  Table table({std::string(what) + " at the peak", "live", "share", "allocations"});
  for (std::size_t i = 0; i < items.size() && i < 5; ++i) {
    const ReportView row(items[i]);
    table.add({row["name"].present() ? printable(row["name"].text()) : std::string(none),
               bytes_text(row["bytes"].number()), share_text(row["bytes"].number(), whole),
               count_text(row["allocations"].number())});
  }
  put(table);
  further(items.size(), 5, "row");
}

void TextReport::memory() {
  const ReportView memory = report_["memory"];
  const ReportView peak = memory["peak"];
  const auto& samples = memory["sampled"]["rows"].items();
  if (!peak["live"].known() && samples.empty()) {
    section("Memory", "not recorded");
    return;
  }
  section("Memory", "", peak["live"].partial());
  if (peak["live"].known()) {
    out_ += "  peak " + style_.bold(bytes_text(peak["live"].value())) + " at " + time_of(peak["time"]);
    out_ += ";  allocated " + bytes_text(memory["allocated"].value()) + " in " +
            some(memory["allocations"].value(), "storage") + ", " + count_text(memory["retained"].value()) +
            " live at the end (" + bytes_text(memory["retained_bytes"].value()) + ")\n";
    const std::uint64_t whole = peak["live"].value();
    if (peak["by_device"].items().size() > 1) shares("device", "", peak["by_device"], whole);
    shares("module", "(outside modules)", peak["by_module"], whole);
    shares("operator", "(outside operators)", peak["by_operator"], whole);
    shares("step", "(outside steps)", peak["by_step"], whole);
  }
  for (const auto& sample : samples) {
    const ReportView row(sample);
    if (!row["used"].present()) continue;
    out_ += "  " + printable(row["device"].text()) + ": up to " + bytes_text(row["used"].number());
    if (row["capacity"].present()) out_ += " of " + bytes_text(row["capacity"].number());
    out_ += " in use (" + some(row["samples"].number(), "sample") + ")\n";
  }
}

void TextReport::not_seen() {
  const ReportView items = report_["health"]["not_seen"]["items"];
  const ReportView ledger = report_["health"]["not_seen"]["ledger"];
  const std::uint64_t tail = ledger["unknown_tail_bytes_max"].number();
  const bool tail_unbounded = ledger["unknown_tail_bytes_max"].is_null();
  if (items.items().empty() && tail == 0 && !tail_unbounded) {
    section("Not seen",
            ledger.present() ? "nothing that is known of" : "the producer keeps no account of it");
    return;
  }
  section("Not seen");
  for (const auto& item : items.items()) {
    const ReportView row(item);
    counted(count_text(row["count"].number()), printable(row["message"].text()), row["code"].text());
  }
  if (tail != 0 || tail_unbounded) {
    const std::string most = tail_unbounded ? "records may have been lost, how many is not known"
                                            : "up to " + bytes_text(tail) + " of records were lost";
    out_ += "  " + style_.warn("the end of the run is unknown: " + most) + '\n';
  }
}

void TextReport::problems() {
  bool titled = false;
  for (const auto& issue : report_["health"]["issues"].items()) {
    const ReportView row(issue);
    const std::string code = row["code"].text();
    if (explain_issue(code).is_fact) continue;
    if (!titled) section("Trace problems");
    titled = true;
    const std::string message = printable(row["message"].text());
    counted(count_text(row["count"].number()),
            row["severity"].text() == "error" ? style_.bad(message) : message, code);
  }
  const auto& open = report_["health"]["open"].items();
  if (open.empty()) return;
  section("Still open at the end", "outermost first");
  Table table({"span", "kind", "since"});
  for (std::size_t i = 0; i < open.size() && i < options_.top; ++i) {
    const ReportView row(open[i]);
    table.add({printable(row["name"].text()), row["kind"].text(), duration_text(row["start"].number())});
  }
  put(table);
  further(report_["health"]["open_spans"].number(), std::min(open.size(), options_.top), "span");
}

}  // namespace

std::string render_text(const boost::json::object& report, const TextOptions& options) {
  const boost::json::value value(report);
  return TextReport(value, options).render();
}

}  // namespace tensortap::analyzers
