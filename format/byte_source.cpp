#include "format/byte_source.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <string_view>

#include "format/io.h"

namespace tensortap::format {
namespace {

constexpr std::size_t kInputBytes = 256 * 1024;
constexpr std::size_t kMagicBytes = 4;           // tell all kinds apart
constexpr int kGzipWindowBits = MAX_WBITS + 16;  // + 16: a gzip header and trailer, nothing else

bool is_zstd(std::string_view begin) {
  if (begin.size() < kMagicBytes) return false;
  const bool skippable =
      (begin[0] & 0xF0) == 0x50 && begin.substr(1, 3) == std::string_view("\x2A\x4D\x18", 3);
  return skippable || begin.substr(0, 4) == std::string_view("\x28\xB5\x2F\xFD", 4);
}

bool is_gzip(std::string_view begin) { return begin.substr(0, 2) == "\x1F\x8B"; }

// Stored bytes: what of them is used is taken from the front.
struct Input {
  const char* at = nullptr;
  std::size_t left = 0;
};

// What turns stored bytes into the file's text.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Takes from `input`, which may be empty while `has_more()`; returns the bytes put to `to`.
  virtual std::size_t decode(Input& input, char* to, std::size_t room) = 0;
  virtual bool has_more() const { return false; }     // text that needs no more input, only room
  virtual bool inside_unit() const { return false; }  // not at the end of a frame or member
  const char* fault() const { return fault_; }        // nothing can be decoded any more
  virtual const char* name() const = 0;

 protected:
  const char* fault_ = nullptr;
};

class PlainDecoder : public Decoder {
 public:
  std::size_t decode(Input& input, char* to, std::size_t room) override {
    const std::size_t bytes = std::min(input.left, room);
    std::memcpy(to, input.at, bytes);
    input.at += bytes;
    input.left -= bytes;
    return bytes;
  }
  const char* name() const override { return "plain"; }
};

// Frames ask for a window of at most 128 MiB (zstd's own limit for streams), else they are refused.
class ZstdDecoder : public Decoder {
 public:
  ZstdDecoder() : stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
  }
  std::size_t decode(Input& input, char* to, std::size_t room) override {
    ZSTD_inBuffer in{input.at, input.left, 0};
    ZSTD_outBuffer out{to, room, 0};
    const std::size_t left = ZSTD_decompressStream(stream_.get(), &out, &in);
    input.at += in.pos;
    input.left -= in.pos;
    if (ZSTD_isError(left)) {
      fault_ = ZSTD_getErrorName(left);
    } else {
      inside_ = left != 0;
      has_more_ = inside_ && out.pos == out.size;
    }
    return out.pos;
  }
  bool has_more() const override { return has_more_; }
  bool inside_unit() const override { return inside_; }
  const char* name() const override { return "zstd"; }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  bool inside_ = false;
  bool has_more_ = false;
};

class GzipDecoder : public Decoder {
 public:
  GzipDecoder() {
    if (inflateInit2(&stream_, kGzipWindowBits) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecoder() override { inflateEnd(&stream_); }
  GzipDecoder(const GzipDecoder&) = delete;
  GzipDecoder& operator=(const GzipDecoder&) = delete;

  std::size_t decode(Input& input, char* to, std::size_t room) override {
    if (at_end_) {  // of a member, and more bytes follow: the next one begins
      inflateReset(&stream_);
      at_end_ = false;
    }
    room = std::min<std::size_t>(room, std::numeric_limits<uInt>::max());
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.at));  // zlib only reads it
    stream_.avail_in = static_cast<uInt>(input.left);
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(room);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    input.at += input.left - stream_.avail_in;
    input.left = stream_.avail_in;
    at_end_ = result == Z_STREAM_END;
    has_more_ = !at_end_ && stream_.avail_out == 0;
    // Z_BUF_ERROR: no progress without more input or room, which comes.
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      fault_ = stream_.msg != nullptr ? stream_.msg : zError(result);
    }
    return room - stream_.avail_out;
  }
  bool has_more() const override { return has_more_; }
  bool inside_unit() const override { return !at_end_; }
  const char* name() const override { return "gzip"; }

 private:
  z_stream stream_{};
  bool at_end_ = false;
  bool has_more_ = false;
};

}  // namespace

struct ByteSource::Impl {
  std::string name;
  FileDescriptor file;
  int fd = -1;

  std::unique_ptr<char[]> buffer{new char[kInputBytes]};
  Input input{buffer.get(), 0};
  std::uint64_t read_bytes = 0;  // of the file, `input` included
  bool input_ended = false;
  std::unique_ptr<Decoder> decoder;
  std::optional<Error> error;

  bool fill();
  std::size_t decode(char* to, std::size_t room);
  std::uint64_t used_bytes() const { return read_bytes - input.left; }
};

// Reads more stored bytes behind those that are there; false at the end of the file and on an error.
bool ByteSource::Impl::fill() {
  if (input_ended) return false;
  if (input.left == 0) input.at = buffer.get();
  const std::size_t filled = static_cast<std::size_t>(input.at - buffer.get()) + input.left;
  ssize_t got = 0;
  do {
    got = ::read(fd, buffer.get() + filled, kInputBytes - filled);
  } while (got < 0 && errno == EINTR);
  if (got <= 0) {
    input_ended = true;
    if (got < 0) error = io_error("read", name, errno);
    return false;
  }
  input.left += static_cast<std::size_t>(got);
  read_bytes += static_cast<std::uint64_t>(got);
  return true;
}

std::size_t ByteSource::Impl::decode(char* to, std::size_t room) {
  const std::size_t bytes = decoder->decode(input, to, room);
  if (decoder->fault() != nullptr) {
    error = Error{ErrorCode::kMalformed,
                  std::string("the ") + decoder->name() + " data is damaged near byte " +
                      std::to_string(used_bytes()) + " of the file: " + decoder->fault() +
                      "; what came before was read",
                  name};
  }
  return bytes;
}

ByteSource::ByteSource(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  if (path == "-") {
    impl->name = "<standard input>";
    impl->fd = STDIN_FILENO;
  } else {
    impl->name = path;
    impl->file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!impl->file) return io_error("open", path, errno);
    impl->fd = impl->file.get();
  }
  // The first bytes tell what it is. A pipe may give them one by one.
  while (impl->input.left < kMagicBytes && impl->fill()) {
  }
  if (impl->error) return *impl->error;
  const std::string_view begin(impl->input.at, impl->input.left);
  if (is_zstd(begin)) {
    impl->decoder = std::make_unique<ZstdDecoder>();
  } else if (is_gzip(begin)) {
    impl->decoder = std::make_unique<GzipDecoder>();
  } else {
    impl->decoder = std::make_unique<PlainDecoder>();
  }
  return ByteSource(std::move(impl));
}

Result<ByteSource> ByteSource::open_zstd(const std::string& path, std::uint64_t offset) {
  auto impl = std::make_unique<Impl>();
  impl->name = path;
  impl->file = FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!impl->file) return io_error("open", path, errno);
  impl->fd = impl->file.get();
  if (::lseek(impl->fd, static_cast<off_t>(offset), SEEK_SET) < 0) return io_error("read", path, errno);
  impl->read_bytes = offset;
  impl->decoder = std::make_unique<ZstdDecoder>();
  return ByteSource(std::move(impl));
}

std::size_t ByteSource::read(char* to, std::size_t room) {
  Impl& s = *impl_;
  while (room > 0 && !s.error) {
    if (s.input.left == 0 && !s.decoder->has_more() && !s.fill()) return 0;
    if (const std::size_t bytes = s.decode(to, room)) return bytes;
  }
  return 0;
}

const std::optional<Error>& ByteSource::error() const { return impl_->error; }
bool ByteSource::truncated() const { return !impl_->error && impl_->decoder->inside_unit(); }
const std::string& ByteSource::name() const { return impl_->name; }
std::uint64_t ByteSource::stored_bytes() const { return impl_->used_bytes(); }

}  // namespace tensortap::format
