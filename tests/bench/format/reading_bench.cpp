// reading_bench FILE.jsonl [--rounds N] [--folder DIR]: how fast a trace is read and written, beside
// simdjson's own walk over all values of the same bytes. Prints JSON for tests/bench/reading.
//
// All rows are measured in turn, round by round, so that a machine that gets slower gets slower for all. CPU
// time is that of the process with all its threads.
#include <simdjson.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzers/analysis.h"
#include "analyzers/candle/evidence.h"
#include "format/container.h"
#include "format/event_batch.h"
#include "format/health/trace_health.h"
#include "format/line_reader.h"
#include "format/line_writer.h"
#include "format/trace_reader.h"

namespace {

using namespace tensortap::format;
namespace ondemand = simdjson::ondemand;

double seconds(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Keeps the compiler from dropping what is read.
std::uint64_t sink = 0;

// ---- simdjson by itself: every key and every value of every line, unescaped and typed.

bool walk(ondemand::value value);

bool walk(ondemand::object object) {
  for (auto item : object) {
    ondemand::field field;
    std::string_view key;
    if (std::move(item).get(field) || field.unescaped_key().get(key)) return false;
    sink += key.size();
    if (!walk(field.value())) return false;
  }
  return true;
}

bool walk(ondemand::value value) {
  ondemand::json_type type{};
  if (value.type().get(type)) return false;
  switch (type) {
    case ondemand::json_type::object: {
      ondemand::object object;
      return !value.get_object().get(object) && walk(object);
    }
    case ondemand::json_type::array: {
      ondemand::array array;
      if (value.get_array().get(array)) return false;
      for (auto item : array) {
        ondemand::value element;
        if (std::move(item).get(element) || !walk(element)) return false;
      }
      return true;
    }
    case ondemand::json_type::string: {
      std::string_view text;
      if (value.get_string().get(text)) return false;
      sink += text.size();
      return true;
    }
    case ondemand::json_type::number: {
      ondemand::number number;
      if (value.get_number().get(number)) return false;
      sink += number.is_uint64() ? number.get_uint64() : static_cast<std::uint64_t>(number.as_double() != 0);
      return true;
    }
    case ondemand::json_type::boolean: {
      bool flag = false;
      if (value.get_bool().get(flag)) return false;
      sink += flag ? 1 : 0;
      return true;
    }
    default:
      return !value.is_null().error();
  }
}

void walk(simdjson::dom::element element) {
  using Type = simdjson::dom::element_type;
  switch (element.type()) {
    case Type::OBJECT:
      for (const auto field : simdjson::dom::object(element)) {
        sink += field.key.size();
        walk(field.value);
      }
      break;
    case Type::ARRAY:
      for (const auto item : simdjson::dom::array(element)) walk(item);
      break;
    case Type::STRING:
      sink += std::string_view(element).size();
      break;
    case Type::UINT64:
    case Type::INT64:
      sink += element.get_uint64().error() ? 1 : element.get_uint64().value_unsafe();
      break;
    case Type::DOUBLE:
      sink += double(element) != 0 ? 1 : 0;
      break;
    case Type::BOOL:
      sink += bool(element) ? 1 : 0;
      break;
    default:
      break;
  }
}

constexpr std::size_t kBatchBytes = 256 * 1024;

// ---- What is measured. Each function returns how many records it read or wrote.

struct Bench {
  std::string path, folder;
  std::string text;  // the file, and padding
  std::size_t bytes = 0;
  std::vector<EventBatch> events;  // of the first lines, for the writer
  std::size_t event_bytes = 0;

  std::string_view lines() const { return std::string_view(text).substr(0, bytes); }
  std::string stored() const { return folder + "/trace.jsonl.zst"; }

  template <class Use>
  std::uint64_t each_line(Use use) const {
    std::uint64_t count = 0;
    for (std::string_view rest = lines(); !rest.empty();) {
      const auto* lf = static_cast<const char*>(std::memchr(rest.data(), '\n', rest.size()));
      const auto size = lf == nullptr ? rest.size() : static_cast<std::size_t>(lf - rest.data());
      if (!use(rest.substr(0, size))) return 0;
      ++count;
      rest.remove_prefix(std::min(size + 1, rest.size()));
    }
    return count;
  }

  std::uint64_t walk_many() const {
    ondemand::parser parser;
    ondemand::document_stream stream;
    if (parser.iterate_many(text.data(), bytes, kBatchBytes).get(stream)) return 0;
    std::uint64_t count = 0;
    for (auto document : stream) {
      ondemand::object object;
      if (document.get_object().get(object) || !walk(object)) return 0;
      ++count;
    }
    return count;
  }
  std::uint64_t walk_lines() const {
    ondemand::parser parser;
    return each_line([&](std::string_view line) {
      ondemand::document document;
      ondemand::object object;
      return !parser.iterate(line.data(), line.size(), line.size() + simdjson::SIMDJSON_PADDING)
                  .get(document) &&
             !document.get_object().get(object) && walk(object);
    });
  }
  std::uint64_t walk_dom() const {
    simdjson::dom::parser parser;
    simdjson::dom::document_stream stream;
    if (parser.parse_many(text.data(), bytes, kBatchBytes).get(stream)) return 0;
    std::uint64_t count = 0;
    for (auto document : stream) {
      simdjson::dom::element element;
      if (document.get(element)) return 0;
      walk(element);
      ++count;
    }
    return count;
  }

  std::uint64_t kind_only() const {
    KindReader reader;
    return each_line([&](std::string_view line) {
      const std::string_view kind = reader.kind(line);
      sink += kind.size();
      return !kind.empty();
    });
  }
  std::uint64_t all_fields() const {
    LineReader reader;
    EventVisitor nobody;
    Place place{0, 1, 0};
    return reader.read_lines(lines(), place, nobody, [](const Error&) {});
  }
  std::uint64_t single_lines() const {
    LineReader reader;
    EventVisitor nobody;
    Place place{0, 1, 0};
    return each_line([&](std::string_view line) { return reader.read(line, place, nobody).ok(); });
  }
  std::uint64_t read_file(const std::string& file, unsigned threads) const {
    EventVisitor nobody;
    auto reader = TraceReader::open(file, {.threads = threads});
    return reader ? reader->read_all(nobody).records : 0;
  }

  std::uint64_t with_health() const {
    LineReader reader;
    TraceHealth health;
    Place place{0, 1, 0};
    const std::uint64_t records = reader.read_lines(lines(), place, health, [](const Error&) {});
    sink += health.finish().issues.size();
    return records;
  }
  std::uint64_t file_with_health(unsigned threads) const {
    TraceHealth health;
    auto reader = TraceReader::open(path, {.threads = threads});
    const std::uint64_t records = reader ? reader->read_all(health).records : 0;
    sink += health.finish().issues.size();
    return records;
  }
  std::uint64_t all_analyzers(unsigned threads) const {
    tensortap::analyzers::Analysis analysis;
    auto reader = TraceReader::open(path, {.threads = threads});
    const std::uint64_t records = reader ? analysis.consume(*reader).records : 0;
    sink += analysis.report().size();
    return records;
  }
  std::uint64_t evidence(unsigned threads) const {
    tensortap::analyzers::candle::Evidence evidence;
    auto reader = TraceReader::open(path, {.threads = threads});
    const std::uint64_t records = reader ? reader->read_all(evidence).records : 0;
    return evidence.finish().ok() ? records : 0;
  }

  void keep_events() {
    LineReader reader;
    constexpr std::size_t kMost = 32 * 1024 * 1024;
    for (std::string_view rest = lines().substr(0, kMost); !rest.empty();) {
      const std::size_t size = rest.substr(0, 1024 * 1024).rfind('\n') + 1;
      if (size == 0) break;
      events.emplace_back().set_lines(rest.substr(0, size));
      events.back().read(reader);
      event_bytes += size;
      rest.remove_prefix(size);
    }
  }
  std::uint64_t write_lines() const;
  std::uint64_t write_container() const;
};

struct Writing : EventVisitor {
  std::string out;
  LineWriter writer{out};
  template <class Event>
  void write(const Event& event) {
    if (out.size() > kBatchBytes) out.clear();
    writer.write(event);
  }
  void on_meta(const Meta& e, const Place&) override { write(e); }
  void on_span_start(const SpanStart& e, const Place&) override { write(e); }
  void on_span_end(const SpanEnd& e, const Place&) override { write(e); }
  void on_op(const Op& e, const Place&) override { write(e); }
  void on_tensor(const Tensor& e, const Place&) override { write(e); }
  void on_tensor_stats(const TensorStats& e, const Place&) override { write(e); }
  void on_memory(const Memory& e, const Place&) override { write(e); }
  void on_device_memory(const DeviceMemory& e, const Place&) override { write(e); }
  void on_device_interval(const DeviceInterval& e, const Place&) override { write(e); }
  void on_gradient(const Gradient& e, const Place&) override { write(e); }
  void on_edge(const Edge& e, const Place&) override { write(e); }
  void on_terminal(const Terminal& e, const Place&) override { write(e); }
};

std::uint64_t Bench::write_lines() const {
  Writing writing;
  std::uint64_t count = 0;
  for (const EventBatch& batch : events) {
    batch.replay({}, writing);
    count += batch.records();
  }
  return count;
}

std::uint64_t Bench::write_container() const {
  std::filesystem::remove(stored());
  const std::size_t meta = lines().find('\n') + 1;
  auto file = TraceFileWriter::create(stored(), lines().substr(0, meta));
  if (!file) return 0;
  std::uint64_t count = 1;
  for (std::string_view rest = lines().substr(meta); !rest.empty();) {
    const std::size_t size = rest.substr(0, 1024 * 1024).rfind('\n') + 1;
    if (size == 0 || !file->append(rest.substr(0, size), {}).ok()) return 0;
    count += static_cast<std::uint64_t>(std::count(rest.data(), rest.data() + size, '\n'));
    rest.remove_prefix(size);
  }
  return file->sync().ok() ? count : 0;
}

struct Row {
  std::string name;
  std::size_t bytes;
  std::function<std::uint64_t()> run;
  std::uint64_t records = 0;
  std::vector<double> cpu, wall;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Bench bench;
  int rounds = 5;
  CLI::App app{"Measures reading and writing of a trace; prints JSON."};
  app.add_option("FILE", bench.path, "a .jsonl trace")->required();
  app.add_option("--rounds", rounds, "medians of so many")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--folder", bench.folder, "for the container that is written")->required();
  CLI11_PARSE(app, argc, argv);

  std::ifstream file(bench.path, std::ios::binary);
  bench.text.assign(std::istreambuf_iterator<char>(file), {});
  bench.bytes = bench.text.size();
  if (bench.bytes == 0) {
    std::cerr << "cannot read " << bench.path << "\n";
    return 1;
  }
  bench.text.resize(bench.bytes + simdjson::SIMDJSON_PADDING, ' ');
  bench.keep_events();

  const std::size_t all = bench.bytes;
  std::vector<Row> rows;
  const auto add = [&](std::string name, std::size_t bytes, std::function<std::uint64_t()> run) {
    rows.push_back({std::move(name), bytes, std::move(run), 0, {}, {}});
  };
  add("simdjson on-demand, many lines", all, [&] { return bench.walk_many(); });
  add("simdjson on-demand, line by line", all, [&] { return bench.walk_lines(); });
  add("simdjson DOM, many lines", all, [&] { return bench.walk_dom(); });
  add("kind only", all, [&] { return bench.kind_only(); });
  add("all fields", all, [&] { return bench.all_fields(); });
  add("all fields, line by line", all, [&] { return bench.single_lines(); });
  add("file .jsonl, 1 thread", all, [&] { return bench.read_file(bench.path, 1); });
  add("file .jsonl, 2 threads", all, [&] { return bench.read_file(bench.path, 2); });
  add("all fields, with health", all, [&] { return bench.with_health(); });
  add("file, with health, 2 threads", all, [&] { return bench.file_with_health(2); });
  add("file, all analyzers, 1 thread", all, [&] { return bench.all_analyzers(1); });
  add("file, all analyzers, 2 threads", all, [&] { return bench.all_analyzers(2); });
  add("file, evidence of summary, 1 thread", all, [&] { return bench.evidence(1); });
  add("file, evidence of summary, 2 threads", all, [&] { return bench.evidence(2); });
  add("writing", bench.event_bytes, [&] { return bench.write_lines(); });
  add("container: write", all, [&] { return bench.write_container(); });
  add("container: read, 1 thread", all, [&] { return bench.read_file(bench.stored(), 1); });
  add("container: read, 2 threads", all, [&] { return bench.read_file(bench.stored(), 2); });

  for (int round = 0; round <= rounds; ++round) {  // the first warms up
    for (Row& row : rows) {
      const double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), wall = seconds(CLOCK_MONOTONIC);
      row.records = row.run();
      if (row.records == 0) {
        std::cerr << row.name << ": failed\n";
        return 1;
      }
      if (round == 0) continue;
      row.cpu.push_back(seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu);
      row.wall.push_back(seconds(CLOCK_MONOTONIC) - wall);
    }
  }
  std::printf("[\n");
  for (const Row& row : rows) {
    std::printf(
        "  {\"row\": \"%s\", \"bytes\": %zu, \"records\": %llu, \"cpu_s\": %.6f, \"wall_s\": %.6f}%s\n",
        row.name.c_str(), row.bytes, static_cast<unsigned long long>(row.records), median(row.cpu),
        median(row.wall), &row == &rows.back() ? "" : ",");
  }
  std::printf("]\n");
  std::cerr << "checksum " << sink << "\n";
  return 0;
}
