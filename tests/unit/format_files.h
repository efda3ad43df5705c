// A folder of its own for each test, and lines to put into files.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "format/line_writer.h"

namespace tensortap::format {

class TempFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "tensortap-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string path(std::string_view name) const { return folder_ + "/" + std::string(name); }
  void write(std::string_view name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string read(std::string_view name) const {
    std::ostringstream out;
    out << std::ifstream(path(name), std::ios::binary).rdbuf();
    return out.str();
  }

 private:
  std::string folder_;
};

inline std::string gzip_member(std::string_view text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string meta_line(const std::string& run_id) {
  Meta meta;
  meta.run_id = run_id;
  std::string line;
  LineWriter(line).write(meta);
  return line;
}

inline std::string span_end_line(std::uint64_t number) {
  std::string line;
  const std::string id = "s" + std::to_string(number);
  LineWriter(line).write(SpanEnd{id, number * 7919 % 100000, ""});
  return line;
}

inline std::string terminal_line() {
  std::string line;
  LineWriter(line).write(Terminal{Outcome::kComplete, 5, {}, ""});
  return line;
}

}  // namespace tensortap::format
