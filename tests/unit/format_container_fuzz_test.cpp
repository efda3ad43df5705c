// Small files of every kind, whole, cut at each byte, and with damaged bytes, through the checks of the
// fuzzer. With TENSORTAP_FUZZ_CORPUS=FOLDER the whole ones are written there, as its corpus.
#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>

#include "format_files.h"
#include "tests/fuzz/container_checks.h"

namespace tensortap::format {
namespace {

std::string zstd_frame(std::string_view text, bool checksum) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, checksum ? 1 : 0);
  out.resize(ZSTD_compress2(context, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return out;
}

class ContainerFuzzTest : public TempFolder {
 protected:
  // Inputs of the fuzzer, by name.
  std::map<std::string, std::string> inputs() const {
    const std::string lines = span_end_line(1) + span_end_line(2) + terminal_line();
    std::map<std::string, std::string> all;
    for (const bool finished : {false, true}) {
      std::filesystem::remove(path("t"));
      auto writer = TraceFileWriter::create(path("t"), meta_line("run"));
      EXPECT_TRUE(writer->append(span_end_line(1), {{1, 10}}).ok());
      EXPECT_TRUE(writer->append("", {{1, 20}, {2, 3}}).ok());
      EXPECT_TRUE(writer->append(lines, {}).ok());
      if (finished) {
        EXPECT_TRUE(writer->finish().ok());
      }
      all[finished ? "frames-and-table" : "frames"] = std::string(1, '\0') + read("t").substr(12 + 65536);
    }
    all["plain"] = "\1" + meta_line("run") + lines;
    all["zstd"] = "\1" + zstd_frame(meta_line("run"), true) + zstd_frame(lines, false);
    all["gzip"] = "\1" + gzip_member(meta_line("run")) + gzip_member(lines);
    all["bomb"] = "\1" + zstd_frame(std::string(32 * 1024 * 1024, '\n'), true);
    all["huge-window"] = std::string("\1\x28\xB5\x2F\xFD\x00\xA8\x01\0\0", 10);
    all["huge-content"] = std::string("\1\x28\xB5\x2F\xFD\xE0\0\0\0\0\0\0\0\x80\x01\0\0", 17);
    return all;
  }
  static void check(std::string_view input) {
    fuzzing::check_any_file(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
};

TEST_F(ContainerFuzzTest, SmallFilesKeepEveryPromise) {
  const char* corpus = std::getenv("TENSORTAP_FUZZ_CORPUS");
  if (corpus != nullptr) std::filesystem::create_directories(corpus);
  for (const auto& [name, input] : inputs()) {
    SCOPED_TRACE(name);
    check(input);
    if (corpus != nullptr) std::ofstream(std::string(corpus) + "/" + name, std::ios::binary) << input;
  }
}

TEST_F(ContainerFuzzTest, FilesCutAnywhereOrWithWrongBytesKeepThem) {
  std::mt19937 random(11);
  for (const auto& [name, input] : inputs()) {
    SCOPED_TRACE(name);
    if (name == "bomb") continue;  // as slow as it is big
    for (std::size_t cut = 1; cut < input.size(); ++cut) check(std::string_view(input).substr(0, cut));
    for (std::size_t at = 1 + random() % 2; at < input.size(); at += 2) {  // sampled: each one costs a file
      std::string damaged = input;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 + random() % 255));
      check(damaged);
    }
  }
}

}  // namespace
}  // namespace tensortap::format
