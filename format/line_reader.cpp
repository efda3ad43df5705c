#include "format/line_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "format/json_fields.h"
#include "format/record_fields.h"
#include "format/text.h"

namespace tensortap::format {
namespace {

static_assert(kReadableBehind == simdjson::SIMDJSON_PADDING);
constexpr std::size_t kFewBytes = 2048;
// The tables begin with these.
constexpr std::uint32_t kKindSeen = 1, kEdgeKindSeen = 2;

template <auto& kTable, class Owner>
bool read_object(Json& json, Owner& owner, std::string_view what, int depth);

// ---- One `read_value` for each type a member may have. `depth` is that of the object the value stands in.

TENSORTAP_HOT bool read_value(Json& json, std::string_view name, std::string_view& out, int) {
  return json.text(name, out);
}
bool read_value(Json& json, std::string_view name, std::string& out, int) {
  std::string_view text;
  if (!json.text(name, text)) return false;
  out = text;
  return true;
}
TENSORTAP_HOT bool read_value(Json& json, std::string_view name, std::uint64_t& out, int) {
  return json.unsigned_integer(name, out);
}
bool read_value(Json& json, std::string_view name, double& out, int) { return json.number(name, out); }
bool read_value(Json& json, std::string_view name, bool& out, int) { return json.boolean(name, out); }
// `tags`: keys are the caller's; of a repeated one the last counts.
bool read_value(Json& json, std::string_view name, std::map<std::string, std::string>& out, int depth) {
  if (!json.is_object(name)) return false;
  Fields fields(json, depth + 1);
  while (fields.more()) {
    std::string_view key;
    if (!fields.key(key)) return false;
    if (!read_value(json, name, out[std::string(key)], depth + 1) || !fields.next()) return false;
  }
  return !json.failed();
}
template <class Enum>
std::enable_if_t<std::is_enum_v<Enum>, bool> read_value(Json& json, std::string_view name, Enum& out, int) {
  return json.name_of(name, out);
}
template <class Object>
std::enable_if_t<!std::is_same_v<std::decay_t<decltype(kFieldsOf<Object>)>, int>, bool> read_value(
    Json& json, std::string_view name, Object& out, int depth) {
  return json.is_object(name) && read_object<kFieldsOf<Object>>(json, out, name, depth + 1);
}
template <class T>
bool read_value(Json& json, std::string_view name, std::vector<T>& out, int depth) {
  return json.list(name, [&] { return read_value(json, name, out.emplace_back(), depth + 1); });
}
template <class T>
TENSORTAP_HOT bool read_value(Json& json, std::string_view name, std::optional<T>& out, int depth) {
  out.reset();
  return json.take_null() || read_value(json, name, out.emplace(), depth);
}

// ---- Objects by their tables

template <class Owner>
bool read_ext(Json& json, Owner& owner) {
  if constexpr (requires { owner.ext; }) {
    std::string_view ext;
    if (!json.raw_object(1, ext)) return false;
    owner.ext = ext;
    return true;
  } else {
    return json.check(1);
  }
}

// Reads the fields of one object into `owner`; those in `seen` (a bit for each row of the table) were read
// before.
template <auto& kTable, class Owner>
class ObjectReader {
 public:
  ObjectReader(Json& json, Fields& fields, Owner& owner, std::string_view what, std::uint32_t seen)
      : json_(json), fields_(fields), owner_(owner), what_(what), seen_(seen) {}

  bool read() {
    return in_order(std::make_index_sequence<kCount>()) && in_any_order() && !json_.failed() && has_all();
  }

 private:
  static constexpr std::size_t kCount = std::size(kTable);
  static_assert(kCount < 32);
  static constexpr std::uint32_t bit(std::size_t i) { return std::uint32_t{1} << i; }
  static constexpr std::uint32_t required() {
    std::uint32_t mask = 0;
    for (std::size_t i = 0; i < kCount; ++i) mask |= kTable[i].name.required ? bit(i) : 0;
    return mask;
  }

  // The way of nearly all lines: each field is the next one of the table or absent, and `ext` is the last.
  template <std::size_t... kIndex>
  TENSORTAP_HOT bool in_order(std::index_sequence<kIndex...>) {
    if (!(take_if_next<kIndex>() && ...)) return false;
    return fields_.depth() != 1 || !fields_.is("ext") || (read_ext(json_, owner_) && fields_.next());
  }
  template <std::size_t kIndex>
  TENSORTAP_HOT bool take_if_next() {
    if (!fields_.is(kTable[kIndex].name.name) || (seen_ & bit(kIndex)) != 0) return true;
    return take<kIndex>();
  }
  template <std::size_t kIndex>
  TENSORTAP_HOT bool take() {
    seen_ |= bit(kIndex);
    constexpr auto read = kTable[kIndex].read;
    if constexpr (read != nullptr) {
      if (!read(json_, kTable[kIndex].name.name, owner_, fields_.depth())) return false;
    } else {
      if (!json_.skip()) return false;
    }
    return fields_.next();
  }

  bool in_any_order() {
    while (fields_.more()) {
      std::string_view key;
      if (!fields_.key(key) || !take_named(key, std::make_index_sequence<kCount>())) return false;
    }
    return true;
  }
  template <std::size_t... kIndex>
  bool take_named(std::string_view key, std::index_sequence<kIndex...>) {
    bool good = true;
    const bool is_known = ((key == kTable[kIndex].name.name && (good = take_once<kIndex>(), true)) || ...);
    if (is_known) return good;
    const bool is_ext = fields_.depth() == 1 && key == "ext";
    return (is_ext ? read_ext(json_, owner_) : json_.check(fields_.depth())) && fields_.next();
  }
  template <std::size_t kIndex>
  bool take_once() {
    if ((seen_ & bit(kIndex)) != 0)
      return json_.fail_type(kTable[kIndex].name.name, "is given twice", "repeated_field");
    return take<kIndex>();
  }

  bool has_all() {
    const std::uint32_t missing = required() & ~seen_;
    if (missing == 0) return true;
    std::string message(what_);
    message += ": field \"";
    message += kTable[static_cast<std::size_t>(std::countr_zero(missing))].name.name;
    message += "\" is missing";
    return json_.fail("missing_field", ErrorCode::kRejected, std::move(message));
  }

  Json& json_;
  Fields& fields_;
  Owner& owner_;
  std::string_view what_;
  std::uint32_t seen_;
};

template <auto& kTable, class Owner>
bool read_object(Json& json, Owner& owner, std::string_view what, int depth) {
  Fields fields(json, depth);
  return ObjectReader<kTable, Owner>(json, fields, owner, what, 0).read();
}

// The text of the field that decides what the record's other fields are (`kind`, `edge_kind`), wherever it
// stands. Fields before it are not checked here: the record is read in full afterwards.
bool find_name(Json& json, Fields& fields, std::string_view name, std::string_view& out) {
  while (fields.more()) {
    std::string_view key;
    if (!fields.key(key)) return false;
    if (key == name) return json.text(name, out);
    if (!json.skip() || !fields.next()) return false;
  }
  return !json.failed() &&
         json.fail("missing_field", ErrorCode::kRejected, "field \"" + std::string(name) + "\" is missing");
}

// An event as new, but with the room that its lists have.
template <class Event>
void renew(Event& event) {
  Event fresh;
  fresh.shape.swap(event.shape);
  fresh.shape.clear();
  if constexpr (requires { event.inputs; }) {
    fresh.inputs.swap(event.inputs);
    fresh.inputs.clear();
  }
  event = std::move(fresh);
}

}  // namespace

template <auto kMember>
TENSORTAP_HOT bool read_member(Json& json, std::string_view name, OwnerOf<kMember>& owner, int depth) {
  return read_value(json, name, owner.*kMember, depth);
}

struct LineReader::Impl {
  Json single;
  Json many;
  std::size_t many_bytes = kFewBytes;  // how many to read at once
  // Kept between lines for the room in their lists.
  Op op;
  Tensor tensor;
  TensorStats tensor_stats;
  Memory memory;

  // Reads the record that is open.
  bool read(Json& json, const Place& place, EventVisitor& visitor);
  bool read_kind(Json& json, Fields& fields, std::uint32_t seen, std::string_view kind, const Place& place,
                 EventVisitor& visitor);
  static bool read_edge(Json& json, Fields& fields, std::uint32_t seen, Edge& edge);

  Status read_line(std::string_view line, const Place& place, EventVisitor& visitor);
  std::uint64_t read_many(std::string_view lines, Place& place, EventVisitor& visitor,
                          const BadLine& on_bad_line);
  bool read_one(std::string_view line, Place& place, EventVisitor& visitor, const BadLine& on_bad_line);
};

bool LineReader::Impl::read(Json& json, const Place& place, EventVisitor& visitor) {
  std::string_view kind;
  {
    Fields fields(json, 1);
    if (fields.is("kind")) {
      return json.text("kind", kind) && read_kind(json, fields, kKindSeen, kind, place, visitor);
    }
    if (!find_name(json, fields, "kind", kind)) return false;
  }
  const std::string name(kind);  // the record is begun anew, and `kind` with it
  json.rewind();
  Fields fields(json, 1);
  return read_kind(json, fields, 0, name, place, visitor);
}

// `fields` stands at the kind if that is `seen`, else at the first field.
bool LineReader::Impl::read_kind(Json& json, Fields& fields, std::uint32_t seen, std::string_view kind,
                                 const Place& place, EventVisitor& visitor) {
  const auto good = [&](auto& event) {
    using Event = std::decay_t<decltype(event)>;
    return (seen == 0 || fields.next()) &&
           ObjectReader<kFieldsOf<Event>, Event>(json, fields, event, kind, seen).read() && json.close();
  };
  // The frequent ones first.
  if (kind == "op") {
    renew(op);
    if (good(op)) visitor.on_op(op, place);
  } else if (kind == "memory") {
    renew(memory);
    if (good(memory)) visitor.on_memory(memory, place);
  } else if (kind == "span_start") {
    SpanStart event;
    if (good(event)) visitor.on_span_start(event, place);
  } else if (kind == "span_end") {
    SpanEnd event;
    if (good(event)) visitor.on_span_end(event, place);
  } else if (kind == "tensor") {
    renew(tensor);
    if (good(tensor)) visitor.on_tensor(tensor, place);
  } else if (kind == "device_interval") {
    DeviceInterval event;
    if (good(event)) visitor.on_device_interval(event, place);
  } else if (kind == "device_memory") {
    DeviceMemory event;
    if (good(event)) visitor.on_device_memory(event, place);
  } else if (kind == "tensor_stats") {
    renew(tensor_stats);
    if (good(tensor_stats)) visitor.on_tensor_stats(tensor_stats, place);
  } else if (kind == "gradient") {
    Gradient event;
    if (good(event)) visitor.on_gradient(event, place);
  } else if (kind == "edge") {
    Edge event;
    if (read_edge(json, fields, seen, event)) visitor.on_edge(event, place);
  } else if (kind == "meta") {
    Meta event;
    if (good(event)) visitor.on_meta(event, place);
  } else if (kind == "terminal") {
    Terminal event;
    if (good(event)) visitor.on_terminal(event, place);
  } else {
    json.fail("unknown_kind", ErrorCode::kRejected,
              "kind " + in_quotes(kind) + " is none of trace/10's twelve");
  }
  return !json.failed();
}

// The edge_kind says which fields the record has: it is read first, wherever it stands.
bool LineReader::Impl::read_edge(Json& json, Fields& fields, std::uint32_t seen, Edge& edge) {
  const auto read_as = [&](Fields& rest, std::uint32_t seen_of_rest) {
    const bool good =
        edge.edge_kind == Edge::Kind::kCall
            ? ObjectReader<kCallEdgeFields, Edge>(json, rest, edge, "call edge", seen_of_rest).read()
            : ObjectReader<kDataEdgeFields, Edge>(json, rest, edge, "data edge", seen_of_rest).read();
    return good && json.close();
  };
  const auto take = [&](std::string_view name) {
    return enum_from_name(name, edge.edge_kind) ||
           json.fail_type("edge_kind", "must be one of call, data", "unknown_value");
  };
  std::string_view name;
  if (seen != 0 && !fields.next()) return false;
  if (seen != 0 && fields.is("edge_kind")) {
    return json.text("edge_kind", name) && take(name) && fields.next() &&
           read_as(fields, seen | kEdgeKindSeen);
  }
  json.rewind();
  {
    Fields search(json, 1);
    if (!find_name(json, search, "edge_kind", name) || !take(name)) return false;
    json.rewind();
  }
  Fields all(json, 1);
  return read_as(all, 0);
}

Status LineReader::Impl::read_line(std::string_view line, const Place& place, EventVisitor& visitor) {
  Json& json = single;
  if (json.open(line) && read(json, place, visitor)) return {};
  Error error;
  error.code = json.code();
  error.name = json.name();
  error.message = json.message();
  error.line = place.line;
  error.byte_offset = place.byte_offset;
  error.has_offset = true;
  return error;
}

namespace {

// The size of the whole lines that begin `lines`: about `bytes`, but at least one; 0 when that one is too
// long to be read with others, or has no LF.
std::size_t whole_lines(std::string_view lines, std::size_t bytes) {
  const std::size_t last = lines.substr(0, bytes).rfind('\n');
  if (last != std::string_view::npos) return last + 1;
  return lines.substr(0, Json::kManyBytes).find('\n') + 1;
}

// The first line of `lines`, with its LF.
std::string_view first_line(std::string_view lines) {
  const std::size_t lf = lines.find('\n');
  return lf == std::string_view::npos ? lines : lines.substr(0, lf + 1);
}

// How many bytes of JSON's white space a line begins with.
std::size_t blanks_before(std::string_view line) {
  std::size_t blanks = 0;
  while (blanks < line.size() && json_detail::is_space(line[blanks])) ++blanks;
  return blanks;
}

// Goes behind a line that was shown, told or skipped.
void pass(std::string_view line, bool is_record, Place& place) {
  place.index += is_record ? 1 : 0;
  place.line += 1;
  place.byte_offset += line.size();
}

}  // namespace

// `many.open_many(lines)` was good. Returns how many lines were.
std::uint64_t LineReader::Impl::read_many(std::string_view lines, Place& place, EventVisitor& visitor,
                                          const BadLine& on_bad_line) {
  std::uint64_t records = 0;
  while (!lines.empty()) {
    const std::string_view line = first_line(lines);
    lines.remove_prefix(line.size());
    const std::size_t blanks = blanks_before(line);
    if (blanks == line.size()) {
      pass(line, false, place);
    } else if (many.open_next(line.substr(blanks)) && read(many, place, visitor)) {
      ++records;
      pass(line, true, place);
    } else {
      records += read_one(line, place, visitor, on_bad_line);
    }
  }
  return records;
}

// A line by itself: what is wrong with it, or that nothing is. Returns whether it was a good record.
bool LineReader::Impl::read_one(std::string_view line, Place& place, EventVisitor& visitor,
                                const BadLine& on_bad_line) {
  const bool is_record = !is_blank(line);
  const Status status = is_record ? read_line(line, place, visitor) : Status();
  if (!status) on_bad_line(status.error());
  pass(line, is_record, place);
  return is_record && status.ok();
}

LineReader::LineReader() : impl_(std::make_unique<Impl>()) {}
LineReader::~LineReader() = default;
LineReader::LineReader(LineReader&&) noexcept = default;
LineReader& LineReader::operator=(LineReader&&) noexcept = default;

Status LineReader::read(std::string_view line, const Place& place, EventVisitor& visitor) {
  return impl_->read_line(line, place, visitor);
}

// Simdjson says of many lines only that one of them is bad: then a few are tried, then one by one, and the
// next are more again. So a bad line costs no more than a few others.
std::uint64_t LineReader::read_lines(std::string_view lines, Place& place, EventVisitor& visitor,
                                     const BadLine& on_bad_line) {
  std::uint64_t records = 0;
  std::size_t& bytes = impl_->many_bytes;
  while (!lines.empty()) {
    // Not for simdjson: nothing but blank lines is an error to it.
    if (const std::string_view line = first_line(lines); blanks_before(line) == line.size()) {
      pass(line, false, place);
      lines.remove_prefix(line.size());
      continue;
    }
    std::size_t size = whole_lines(lines, bytes);
    if (size != 0 && impl_->many.open_many(lines.substr(0, size))) {
      records += impl_->read_many(lines.substr(0, size), place, visitor, on_bad_line);
      bytes = std::min(2 * bytes, Json::kManyBytes);
    } else if (size != 0 && bytes > kFewBytes) {
      bytes = kFewBytes;
      continue;
    } else {
      size = first_line(lines).size();
      records += impl_->read_one(lines.substr(0, size), place, visitor, on_bad_line);
    }
    lines.remove_prefix(size);
  }
  return records;
}

struct KindReader::Impl {
  Json json;
};

KindReader::KindReader() : impl_(std::make_unique<Impl>()) {}
KindReader::~KindReader() = default;
KindReader::KindReader(KindReader&&) noexcept = default;
KindReader& KindReader::operator=(KindReader&&) noexcept = default;

std::string_view KindReader::kind(std::string_view line) {
  Json& json = impl_->json;
  std::string_view kind;
  if (!json.open(line)) return {};
  Fields fields(json, 1);
  return find_name(json, fields, "kind", kind) ? kind : std::string_view();
}

}  // namespace tensortap::format
