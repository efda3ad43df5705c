#include "format/line_facts.h"

#include <simdjson.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "format/step_name.h"
#include "format/text.h"

namespace tensortap::format {
namespace {

namespace ondemand = simdjson::ondemand;

constexpr std::string_view kKindNames[kRecordKinds] = {
    "meta",   "span_start",    "span_end",        "op",       "tensor", "tensor_stats",
    "memory", "device_memory", "device_interval", "gradient", "edge",   "terminal"};

enum Field : unsigned { kKind, kTimestamp, kStart, kDuration, kId, kSpanId, kName, kSpanKind, kFields };
constexpr std::string_view kFieldNames[kFields] = {"kind", "timestamp_ns", "start_ns", "duration_ns",
                                                   "id",   "span_id",      "name",     "span_kind"};
constexpr unsigned bit(Field field) { return 1u << field; }

// The fields that facts of a kind come from.
constexpr unsigned needed_of(RecordKind kind) {
  switch (kind) {
    case RecordKind::kSpanStart:
      return bit(kStart) | bit(kId) | bit(kName) | bit(kSpanKind);
    case RecordKind::kSpanEnd:
      return bit(kId) | bit(kDuration);
    case RecordKind::kDeviceInterval:
      return bit(kSpanId);
    default:
      return has_host_time(kind) ? bit(kTimestamp) : 0;
  }
}

// What was met of a line so far.
struct Seen {
  std::optional<RecordKind> kind;
  unsigned needed = ~0u;  // while the kind is not known: all
  std::optional<std::uint64_t> timestamp_ns, start_ns, duration_ns;
  std::optional<std::string_view> id, span_id, name, span_kind;

  bool take(Field field, ondemand::value& value);
  LineFacts facts() const;
};

// A value of another type leaves the field unseen: unknown fields may bear these names in other kinds.
void take_number(ondemand::value& value, std::optional<std::uint64_t>& out) {
  std::uint64_t number = 0;
  if (value.get_uint64().get(number) == simdjson::SUCCESS) out = number;
}

void take_text(ondemand::value& value, std::optional<std::string_view>& out) {
  std::string_view text;
  if (value.get_string().get(text) == simdjson::SUCCESS) out = text;
}

// False: the kind is none of ours.
bool Seen::take(Field field, ondemand::value& value) {
  switch (field) {
    case kKind: {
      std::optional<std::string_view> text;
      take_text(value, text);
      if (text) kind = record_kind_from_name(*text);
      if (kind) needed = needed_of(*kind);
      return kind.has_value();
    }
    case kTimestamp:
      take_number(value, timestamp_ns);
      break;
    case kStart:
      take_number(value, start_ns);
      break;
    case kDuration:
      take_number(value, duration_ns);
      break;
    case kId:
      take_text(value, id);
      break;
    case kSpanId:
      take_text(value, span_id);
      break;
    case kName:
      take_text(value, name);
      break;
    case kSpanKind:
      take_text(value, span_kind);
      break;
    case kFields:
      break;
  }
  return true;
}

LineFacts Seen::facts() const {
  LineFacts facts;
  facts.kind = kind;
  if (!kind) return facts;
  if (*kind == RecordKind::kSpanStart) {
    facts.time_ns = start_ns;
    facts.id = id.value_or("");
    if (name && span_kind == "function") facts.step = step_number(*name);
  } else if (*kind == RecordKind::kSpanEnd) {
    facts.id = id.value_or("");
    facts.duration_ns = duration_ns.value_or(0);
  } else if (*kind == RecordKind::kDeviceInterval) {
    facts.id = span_id.value_or("");
  } else if (*kind == RecordKind::kOp) {
    facts.time_ns = timestamp_ns.value_or(0);  // the format's default
  } else if (has_host_time(*kind)) {
    facts.time_ns = timestamp_ns;
  }
  return facts;
}

}  // namespace

std::string_view record_kind_name(RecordKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

std::optional<RecordKind> record_kind_from_name(std::string_view name) {
  const auto found = std::find(std::begin(kKindNames), std::end(kKindNames), name);
  if (found == std::end(kKindNames)) return std::nullopt;
  return static_cast<RecordKind>(found - std::begin(kKindNames));
}

bool has_host_time(RecordKind kind) {
  return kind == RecordKind::kSpanStart || kind == RecordKind::kOp || kind == RecordKind::kMemory ||
         kind == RecordKind::kDeviceMemory || kind == RecordKind::kTerminal;
}

namespace {

// Which field a key is; kFields: none that matters. `plain`: nothing in the line is escaped.
Field field_of(ondemand::field& field, bool plain) {
  if (plain) {
    const simdjson::ondemand::raw_json_string key = field.key();
    for (unsigned i = 0; i < kFields; ++i) {
      if (key.raw()[0] == static_cast<std::uint8_t>(kFieldNames[i][0]) &&
          key.unsafe_is_equal(kFieldNames[i])) {
        return static_cast<Field>(i);
      }
    }
    return kFields;
  }
  std::string_view key;
  if (field.unescaped_key().get(key) != simdjson::SUCCESS) return kFields;
  const auto found = std::find(std::begin(kFieldNames), std::end(kFieldNames), key);
  return static_cast<Field>(found - std::begin(kFieldNames));
}

}  // namespace

struct FactReader::Impl {
  ondemand::parser parser;
  std::string copy;

  LineFacts walk(std::string_view line, std::size_t capacity);
};

LineFacts FactReader::Impl::walk(std::string_view line, std::size_t capacity) {
  Seen seen;
  ondemand::document document;
  ondemand::object object;
  if (parser.iterate(line.data(), line.size(), capacity).get(document) != simdjson::SUCCESS ||
      document.get_object().get(object) != simdjson::SUCCESS) {
    return {};
  }
  const bool plain = line.find('\\') == std::string_view::npos;
  unsigned met = 0;
  for (auto item : object) {
    ondemand::field field;
    if (std::move(item).get(field) != simdjson::SUCCESS) return {};
    const Field which = field_of(field, plain);
    if (which == kFields || (seen.needed & bit(which)) == 0) continue;
    if (!seen.take(which, field.value())) return {};
    met |= bit(which);
    if (!seen.kind) continue;
    if (which == kName && !(seen.name && step_number(*seen.name))) seen.needed &= ~bit(kSpanKind);
    if ((met & seen.needed) == seen.needed) break;
  }
  return seen.facts();
}

FactReader::FactReader() : impl_(std::make_unique<Impl>()) {}
FactReader::~FactReader() = default;
FactReader::FactReader(FactReader&&) noexcept = default;
FactReader& FactReader::operator=(FactReader&&) noexcept = default;

LineFacts FactReader::read(std::string_view line, std::size_t readable) {
  const std::string_view trimmed = trim(line);
  readable += static_cast<std::size_t>(line.end() - trimmed.end());
  if (readable >= simdjson::SIMDJSON_PADDING) return impl_->walk(trimmed, trimmed.size() + readable);
  impl_->copy.assign(trimmed);
  impl_->copy.append(simdjson::SIMDJSON_PADDING, ' ');
  return impl_->walk(std::string_view(impl_->copy).substr(0, trimmed.size()), impl_->copy.size());
}

}  // namespace tensortap::format
