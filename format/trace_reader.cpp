#include "format/trace_reader.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "format/byte_source.h"
#include "format/line_reader.h"
#include "format/parallel_reader.h"
#include "format/text.h"

namespace tensortap::format {
namespace {

constexpr std::size_t kReadBytes = 256 * 1024;            // room for one read, at least
constexpr std::size_t kMaxLineBytes = 256 * 1024 * 1024;  // longer than any record; keeps memory bounded
constexpr std::size_t kMaxErrors = 20;
constexpr unsigned kMostThreads = 8;  // one decompresses at a time: more would wait for it

bool can_read(const std::string& schema) {
  return schema == "candle-graph/trace/10" || schema == "candle-graph/trace/9";
}

// Hears of the schema if the record is a meta.
struct SchemaOfMeta : EventVisitor {
  bool readable = false;
  void on_meta(const Meta& meta, const Place&) override { readable = can_read(meta.schema); }
};

}  // namespace

struct TraceReader::Impl {
  Impl(ByteSource bytes, const ReadOptions& read_options) : source(std::move(bytes)), options(read_options) {}

  ByteSource source;
  ReadOptions options;

  // Text: `lines[begin, end)` is not handed out yet; nothing in [begin, searched) is an LF. kReadableBehind
  // bytes of the buffer are behind `end`.
  std::string lines;
  std::size_t begin = 0, searched = 0, end = 0;
  bool text_ended = false;

  Place next{0, 1, 0};
  bool unterminated = false;  // the last line had no LF
  std::optional<Error> error;

  void fill_text();
  void make_room();
  bool hand_out(std::size_t length, std::size_t skip, std::string_view& line, Place& place);
  std::string_view take_lines(std::size_t bytes);

  void read_many(LineReader& reader, EventVisitor& visitor, ReadReport& report);
  bool read_parallel(unsigned threads, EventVisitor& visitor, ReadReport& report);
  bool report_bad(Error bad, ReadReport& report) const;
};

// Room for more text behind `end`: what was handed out goes, or the buffer grows.
void TraceReader::Impl::make_room() {
  if (begin > 0) {
    lines.replace(0, end, lines, begin, end - begin);
    searched -= begin;
    end -= begin;
    begin = 0;
  }
  const std::size_t wanted = end + std::max(kReadBytes, end);  // doubles for a line that does not end
  if (lines.size() - end < kReadBytes) lines.resize(wanted + kReadableBehind);
}

void TraceReader::Impl::fill_text() {
  if (end - begin > kMaxLineBytes) {
    error = Error{ErrorCode::kMalformed, "the line is longer than 256 MiB: not a trace", source.name()};
    error->line = next.line;
    error->byte_offset = next.byte_offset;
    error->has_offset = true;
    text_ended = true;
    begin = searched = end;  // what is there of it is no line
    return;
  }
  make_room();
  const std::size_t got = source.read(lines.data() + end, lines.size() - end - kReadableBehind);
  end += got;
  if (got > 0) return;
  text_ended = true;
  error = source.error();
}

bool TraceReader::Impl::hand_out(std::size_t length, std::size_t skip, std::string_view& line, Place& place) {
  line = std::string_view(lines).substr(begin, length);
  place = next;
  begin += length + skip;
  searched = begin;
  next.line += 1;
  next.byte_offset += length + skip;
  if (!is_blank(line)) next.index += 1;
  return true;
}

// All whole lines that are there, once there are so many bytes or the input ended; nothing when no line is
// left that has its LF. Valid until more is read.
std::string_view TraceReader::Impl::take_lines(std::size_t bytes) {
  for (;;) {
    const char* unsearched = lines.data() + searched;
    const void* lf =
        text_ended || end - begin >= bytes ? ::memrchr(unsearched, '\n', end - searched) : nullptr;
    if (lf != nullptr) {
      const auto length = static_cast<std::size_t>(static_cast<const char*>(lf) + 1 - (lines.data() + begin));
      const std::string_view taken = std::string_view(lines).substr(begin, length);
      begin += length;
      searched = end;
      return taken;
    }
    if (end - begin >= bytes) searched = end;
    if (text_ended) return {};
    fill_text();
  }
}

TraceReader::TraceReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::open(const std::string& path, const ReadOptions& options) {
  Result<ByteSource> source = ByteSource::open(path);
  if (!source) return source.error();
  auto impl = std::make_unique<Impl>(std::move(*source), options);
  return TraceReader(std::move(impl));
}

bool TraceReader::next_line(std::string_view& line, Place& place) {
  Impl& r = *impl_;
  for (;;) {
    const char* text = r.lines.data();
    if (const void* lf =
            r.end > r.searched ? std::memchr(text + r.searched, '\n', r.end - r.searched) : nullptr) {
      const auto at = static_cast<std::size_t>(static_cast<const char*>(lf) - text);
      return r.hand_out(at - r.begin, 1, line, place);
    }
    r.searched = r.end;
    if (r.text_ended) break;
    r.fill_text();
  }
  if (r.begin == r.end) return false;
  r.unterminated = true;
  return r.hand_out(r.end - r.begin, 0, line, place);
}

bool TraceReader::truncated() const { return impl_->unterminated || impl_->source.truncated(); }

const std::optional<Error>& TraceReader::stream_error() const { return impl_->error; }

ReadReport TraceReader::read_all(EventVisitor& visitor) {
  ReadReport report;
  LineReader reader;
  bool last_is_cut = false;
  // Reads the next record by itself: the first one, and a last one without LF.
  const auto read_one = [&] {
    std::string_view line;
    Place place;
    do {
      if (!next_line(line, place)) return false;
      last_is_cut = false;
    } while (is_blank(line));
    if (place.index == 0) {
      SchemaOfMeta first;
      report.is_trace = reader.read(line, place, first).ok() && first.readable;
    }
    const Status status = reader.read(line, place, visitor);
    report.records += status.ok() ? 1 : 0;
    last_is_cut = !status && impl_->report_bad(status.error(), report);
    return true;
  };
  if (read_one()) {
    impl_->read_many(reader, visitor, report);
    while (read_one()) {
    }
  }
  report.raw_bytes = impl_->next.byte_offset;
  report.truncated = impl_->source.truncated() || last_is_cut;
  if (impl_->error && report.errors.size() < kMaxErrors) report.errors.push_back(*impl_->error);
  return report;
}

// All lines that have their LF.
void TraceReader::Impl::read_many(LineReader& reader, EventVisitor& visitor, ReadReport& report) {
  unsigned threads = options.threads;
  if (threads == 0) threads = std::min(std::thread::hardware_concurrency(), kMostThreads);
  const std::size_t bytes = threads > 1 ? options.chunk_bytes : kReadBytes;
  for (std::string_view text; !(text = take_lines(bytes)).empty();) {
    report.records +=
        reader.read_lines(text, next, visitor, [&](const Error& bad) { report_bad(bad, report); });
    // The first chunk is read here: a short input is not worth a thread.
    if (threads > 1 && !text_ended && read_parallel(threads, visitor, report)) return;
  }
}

// False: there are no threads.
bool TraceReader::Impl::read_parallel(unsigned threads, EventVisitor& visitor, ReadReport& report) {
  const auto next_lines = [this] { return take_lines(options.chunk_bytes); };
  return read_in_parallel(threads, next_lines, [&](const EventBatch& batch) {
    batch.replay(next, visitor);
    report.records += batch.records();
    std::vector<Error> errors = batch.errors(next);
    report.bad_lines += batch.bad_lines() - errors.size();  // those beyond the first
    for (Error& bad : errors) report_bad(std::move(bad), report);
    next = batch.behind(next);
  });
}

// True: the input ends inside the line. One that is whole but wrong may lack its LF as well (§1.1).
bool TraceReader::Impl::report_bad(Error bad, ReadReport& report) const {
  ++report.bad_lines;
  const bool is_cut = unterminated && bad.code == ErrorCode::kMalformed;
  if (report.errors.size() >= kMaxErrors) return is_cut;
  bad.file = source.name();
  if (is_cut) {
    bad.code = ErrorCode::kTruncated;
    bad.message = "the input ends inside this line (" + bad.message + ")";
  }
  report.errors.push_back(std::move(bad));
  return is_cut;
}

}  // namespace tensortap::format
