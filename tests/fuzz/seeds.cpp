// Writes the first inputs of the fuzzers whose inputs are binary: ring records, each kind alone and all of
// them in one ring; and a trace file of two frames, with and without its seek table.
//
//   seeds CORPORA        CORPORA/ring_record and CORPORA/container must be there
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "format/container.h"
#include "format/line_writer.h"
#include "tests/support/ring_samples.h"

using namespace tensortap::format;

namespace {

bool write(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  return static_cast<bool>(file.flush());
}

bool write_rings(const std::string& folder) {
  const RingSamples samples = ring_samples();
  const auto table_bytes = static_cast<std::uint16_t>(samples.strings.size());
  const std::string front =
      std::string(reinterpret_cast<const char*>(&table_bytes), sizeof table_bytes) + samples.strings;
  std::string all = front;
  bool good = true;
  for (std::size_t i = 0; i < samples.records.size(); ++i) {
    good = write(folder + "/record-" + std::to_string(i), front + samples.records[i]) && good;
    all += samples.records[i];
  }
  return write(folder + "/records", all) && good;
}

// fuzz_container takes what stands behind the meta frame; byte 0 says so (tests/fuzz/container_checks.h).
bool write_containers(const std::string& folder) {
  std::string meta_line, line;
  Meta meta;
  meta.run_id = "run";
  LineWriter(meta_line).write(meta);
  LineWriter(line).write(SpanEnd{"s1.1", 7, ""});
  const std::string path = folder + "/file";
  for (const bool finished : {false, true}) {
    auto writer = TraceFileWriter::create(path, meta_line);
    if (!writer || !writer->append(line, {{1, 10}}) || !writer->append(line + line, {{1, 20}})) return false;
    if (finished && !writer->finish()) return false;
    std::ostringstream bytes;
    bytes << std::ifstream(path, std::ios::binary).rdbuf();
    const std::string behind_meta = bytes.str().substr(12 + 65536);
    if (!write(folder + (finished ? "/frames-and-table" : "/frames"), std::string(1, '\0') + behind_meta))
      return false;
    std::remove(path.c_str());
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: seeds CORPORA\n", stderr);
    return 2;
  }
  const std::string corpora = argv[1];
  return write_rings(corpora + "/ring_record") && write_containers(corpora + "/container") ? 0 : 1;
}
