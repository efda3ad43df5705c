// Any bytes as a line: refused with a message and a place in the line, or read as one event that is written
// and read again without change. What the path to the disk sees of it (KindReader) never contradicts the
// reader.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "format/line_reader.h"
#include "tests/fuzz/require.h"
#include "tests/support/event_log.h"

using namespace tensortap::format;

namespace {

// The record's kind, as the writer spells it at the front of each line.
std::string_view kind_of(std::string_view written) {
  constexpr std::string_view kFront = "{\"kind\":\"";
  written.remove_prefix(kFront.size());
  return written.substr(0, written.find('"'));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static LineReader reader;
  static KindReader kinds;
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const std::string kind(kinds.kind(line));
  const Place place{7, 8, 9000};

  EventLog first;
  const Status status = reader.read(line, place, first);
  if (!status) {
    const Error& error = status.error();
    REQUIRE(!error.message.empty() && first.lines.empty());
    REQUIRE(error.line == place.line && error.has_offset);
    REQUIRE(error.byte_offset >= place.byte_offset && error.byte_offset <= place.byte_offset + size);
    return 0;
  }
  REQUIRE(first.places.size() == 1 && first.places[0].byte_offset == place.byte_offset);
  REQUIRE(kind == kind_of(first.lines));
  // An `ext` may hold line feeds as white space only when the input did: such a text is no line.
  if (line.find('\n') != std::string_view::npos) return 0;
  EventLog second;
  REQUIRE(reader.read(first.lines, place, second).ok());
  REQUIRE(first.lines == second.lines);
  return 0;
}
