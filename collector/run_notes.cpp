#include "collector/run_notes.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

#include "collector/json_fields.h"
#include "collector/limits.h"
#include "collector/meta_line.h"
#include "format/line_writer.h"
#include "format/text.h"

namespace tensortap::collector {

namespace json = boost::json;

namespace {

std::optional<std::string> optional_field(const json::object& object, std::string_view key) {
  std::string text = string_field(object, key);
  if (format::is_blank(text)) return std::nullopt;
  return text;
}

// Only what the crate calls valid (trace/10, §2.5): a meta line with less makes the whole trace invalid.
std::optional<format::ComparisonIdentity> read_identity(const json::object& object) {
  format::ComparisonIdentity identity;
  const std::pair<const char*, std::string*> texts[] = {
      {"workload_id", &identity.workload_id},  {"model_id", &identity.model_id},
      {"config_id", &identity.config_id},      {"data_id", &identity.data_id},
      {"seed_policy", &identity.seed_policy},  {"precision", &identity.precision},
      {"device_state", &identity.device_state}};
  for (const auto& [name, field] : texts) {
    *field = string_field(object, name);
    if (format::is_blank(*field)) return std::nullopt;
  }
  identity.implementation_id = optional_field(object, "implementation_id");
  identity.pair_id = optional_field(object, "pair_id");
  identity.physical_batch = unsigned_field(object, "physical_batch").value_or(0);
  identity.accumulation_steps = unsigned_field(object, "accumulation_steps").value_or(0);
  if (identity.physical_batch == 0 || identity.accumulation_steps == 0) return std::nullopt;
  return identity;
}

}  // namespace

bool RunNotes::take_tag(const std::string& key, const std::string& value) {
  const auto text_bytes = [](const std::string& name, const std::string& text) {
    std::string json;
    format::append_json_string(json, name);
    format::append_json_string(json, text);
    return json.size();
  };
  const auto known = tags_.find(key);
  const std::size_t before = known == tags_.end() ? 0 : text_bytes(known->first, known->second);
  const std::size_t bytes = tag_bytes_ - before + text_bytes(key, value);
  if (bytes > kMaxTagBytes) return false;
  tag_bytes_ = bytes;
  tags_[key] = value;
  return true;
}

bool RunNotes::take(std::string_view line) {
  if (line.size() > kMaxNoteBytes) return false;
  const auto note = parse_object(line);
  if (!note) return false;
  bool taken = false;
  if (const json::object* tags = find_object(*note, "tags")) {
    for (const auto& [key, value] : *tags) {
      const json::string* text = value.if_string();
      taken = (text != nullptr && take_tag(std::string(key), std::string(*text))) || taken;
    }
  }
  if (const json::object* object = find_object(*note, "comparison_identity")) {
    if (auto identity = read_identity(*object)) {
      identity_ = std::move(identity);
      taken = true;
    }
  }
  if (const json::object* place = find_object(*note, "process_group")) {
    taken = take_rank(*place, place_) || taken;
  }
  pending_ = pending_ || taken;
  return taken;
}

std::string RunNotes::with_place(const std::string& ext) const {
  json::object object;
  if (auto parsed = parse_object(ext)) object = std::move(*parsed);
  for (const auto& [key, value] : rank_json(place_)) object[key] = value;
  return json::serialize(object);
}

format::Result<std::string> RunNotes::merged(std::string_view meta_line) {
  pending_ = false;
  return changed_meta_line(meta_line, [this](format::Meta& meta) {
    for (const auto& [key, value] : tags_) meta.tags[key] = value;
    if (identity_) meta.comparison_identity = identity_;
    if (place_.rank) meta.ext = with_place(meta.ext);
  });
}

}  // namespace tensortap::collector
