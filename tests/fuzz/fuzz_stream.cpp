// Any bytes as a trace file: TraceReader tells the same as reading line by line, the rules between records
// find the same, every error has its place inside the file, and nothing crashes.
//
// Whatever else judges whole streams is one more visitor in `Judges`.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/line_reader.h"
#include "format/stream_rules.h"
#include "format/text.h"
#include "format/trace_reader.h"
#include "tests/fuzz/require.h"
#include "tests/support/event_log.h"

using namespace tensortap::format;

namespace {

struct Judges {
  EventLog log;
  StreamRules rules;
  Tee all{{&log, &rules}};
};

struct Told {
  std::string events;  // written again
  std::string errors;  // in the order of their lines, then those between lines
  std::uint64_t bad_lines = 0;
};

void tell(Told& told, const Error& error, std::size_t size) {
  REQUIRE(!error.message.empty());
  if (error.has_offset) REQUIRE(error.byte_offset <= size && error.line >= 1);
  told.errors += error.to_string() + "\n";
}

void finish(Told& told, Judges& judges, std::size_t size) {
  told.events = judges.log.lines;
  const bool good = judges.rules.finish().ok();
  REQUIRE(good == (judges.rules.error_count() == 0));
  for (const Error& error : judges.rules.errors()) tell(told, error, size);
}

Told read_as_file(const std::string& path, std::size_t size) {
  Judges judges;
  Told told;
  Result<TraceReader> reader = TraceReader::open(path);
  REQUIRE(reader.ok());
  const ReadReport report = reader->read_all(judges.all);
  REQUIRE(report.records == judges.log.places.size());
  told.bad_lines = report.bad_lines;
  for (Error error : report.errors) {
    REQUIRE(error.file == path);
    error.file.clear();
    tell(told, error, size);
  }
  finish(told, judges, size);
  return told;
}

Told read_line_by_line(std::string_view text) {
  constexpr std::size_t kKept = 20;  // ReadReport::errors
  Judges judges;
  Told told;
  LineReader reader;
  Place place{0, 1, 0};
  for (std::size_t begin = 0; begin < text.size(); ++place.line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    place.byte_offset = begin;
    if (!is_blank(line)) {
      const Status status = reader.read(line, place, judges.all);
      if (!status && told.bad_lines++ < kKept) {
        Error error = status.error();
        const bool is_cut =
            end == text.size() && error.code == ErrorCode::kMalformed;  // else whole, and wrong
        if (is_cut) error.message = "the input ends inside this line (" + error.message + ")";
        tell(told, error, text.size());
      }
      ++place.index;
    }
    begin = end + 1;
  }
  finish(told, judges, text.size());
  return told;
}

bool is_plain_text(std::string_view bytes) {
  const std::string_view front = bytes.substr(0, 4);
  return front != "\x28\xB5\x2F\xFD" && front.substr(0, 2) != "\x1F\x8B" &&
         !(front.size() == 4 && front.substr(1) == "\x2A\x4D\x18");  // zstd, gzip, skippable frame
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("fuzz_stream", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  REQUIRE(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (!is_plain_text(text)) return 0;  // fuzz_container's
  const Told as_file = read_as_file(path, size);
  const Told by_line = read_line_by_line(text);
  REQUIRE(as_file.events == by_line.events);
  REQUIRE(as_file.bad_lines == by_line.bad_lines);
  REQUIRE(as_file.errors == by_line.errors);
  return 0;
}
