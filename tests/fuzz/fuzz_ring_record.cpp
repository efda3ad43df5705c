// Any bytes as a dead job's string table and ring: every line that the codec makes of them is a record that
// the reader reads, and nothing is read outside the bytes.
//
// Input: u16 size of the string table, the table, then records as they would stand in a ring.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "format/line_reader.h"
#include "format/ring_lines.h"
#include "format/ring_record.h"
#include "tests/fuzz/require.h"

using namespace tensortap::format;

namespace {

void check_lines(LineReader& reader, std::string_view lines) {
  EventVisitor nobody;
  while (!lines.empty()) {
    const std::size_t end = lines.find('\n');
    REQUIRE(end != std::string_view::npos);
    REQUIRE(reader.read(lines.substr(0, end), Place{}, nobody).ok());
    lines.remove_prefix(end + 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static LineReader reader;
  std::uint16_t table_bytes = 0;
  if (size < sizeof table_bytes) return 0;
  std::memcpy(&table_bytes, data, sizeof table_bytes);
  data += sizeof table_bytes;
  size -= sizeof table_bytes;
  if (table_bytes > size) return 0;
  // Copies of exactly their size: AddressSanitizer sees the first byte that is read beyond them.
  const std::vector<char> table(data, data + table_bytes);
  const std::vector<unsigned char> ring(data + table_bytes, data + size);
  const StringTable strings{table.data(), table.size()};

  std::string out;
  RecordRenderer renderer(out);
  std::uint64_t replaced = 0;
  RecordHeader header;
  for (std::uint64_t at = 0; at < ring.size(); at += header.bytes) {
    const std::uint64_t available = ring.size() - at;
    if (!read_record_header(ring.data() + at, available, header)) break;
    out.clear();
    const bool good = renderer.append(ring.data() + at, available, 3, strings);
    REQUIRE(good || out.empty());
    REQUIRE(renderer.replaced_bytes() >= replaced);
    replaced = renderer.replaced_bytes();
    if (!good) break;  // a ring is read up to its first record that makes no sense
    // The text of a line record is the job's own; the daemon judges it like any line from a socket.
    if (header.type == RecordType::kLine) {
      REQUIRE(!out.empty() && out.back() == '\n');
    } else {
      check_lines(reader, out);
    }
    std::string alone;
    REQUIRE(append_record_lines(alone, ring.data() + at, available, 3, strings) && alone == out);
  }
  return 0;
}
