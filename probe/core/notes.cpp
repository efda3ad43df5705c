#include "probe/core/notes.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "format/json_text.h"
#include "format/ring_record.h"
#include "format/text.h"
#include "probe/core/brief_flag.h"
#include "probe/core/capture_state.h"

namespace tensortap::probe {

using namespace format;

namespace {

struct Tag {
  std::uint16_t key_length = 0;
  std::uint16_t value_length = 0;
  char key[kMaxTagKey];
  char value[kMaxTagValue];
};

// Zero pages until they are used.
Tag g_tags[kMaxNotes];
std::size_t g_tag_count = 0;
constexpr std::size_t kIdentityBytes = 12 * 1024;
char g_identity[kIdentityBytes];  // the note's line
std::size_t g_identity_length = 0;
std::atomic_flag g_flag = ATOMIC_FLAG_INIT;

void append_tag(std::string& out, std::string_view key, std::string_view value) {
  append_json_string(out += "{\"kind\":\"note\",\"tags\":{", key);
  append_json_string(out += ':', value);
  out += "}}\n";
}

// A note said during a capture goes into the thread's ring as the line that it is.
void write_line(std::string_view line) noexcept {
  Callback callback;
  if (!callback) return;
  ThreadState& state = callback.state();
  const auto bytes = static_cast<std::uint32_t>(round_up_8(sizeof(LineRecord) + line.size()));
  unsigned char* room = bytes <= kMaxRecordBytes ? state.ring.reserve(bytes) : nullptr;
  if (room == nullptr) return;
  LineRecord record{};
  record.header = {bytes, RecordType::kLine, 0, state.in_order(callback.state().now())};
  record.length = static_cast<std::uint32_t>(line.size());
  std::memcpy(room, &record, sizeof record);
  std::memcpy(room + sizeof record, line.data(), line.size());
  state.ring.commit(bytes);
}

// The tag of this key, or a new one; nullptr when there is no room.
Tag* find_tag(std::string_view key) noexcept {
  for (std::size_t i = 0; i < g_tag_count; ++i) {
    if (std::string_view(g_tags[i].key, g_tags[i].key_length) == key) return &g_tags[i];
  }
  if (g_tag_count == kMaxNotes) return nullptr;
  Tag& tag = g_tags[g_tag_count++];
  tag.key_length = static_cast<std::uint16_t>(key.size());
  std::memcpy(tag.key, key.data(), key.size());
  return &tag;
}

bool remember_tag(std::string_view key, std::string_view value) noexcept {
  BriefFlag flag(g_flag);
  Tag* tag = flag ? find_tag(key) : nullptr;
  if (tag == nullptr) return false;
  tag->value_length = static_cast<std::uint16_t>(value.size());
  if (!value.empty()) std::memcpy(tag->value, value.data(), value.size());
  return true;
}

bool remember_identity(std::string_view line) noexcept {
  BriefFlag flag(g_flag);
  if (!flag || line.size() > kIdentityBytes) return false;
  std::memcpy(g_identity, line.data(), line.size());
  g_identity_length = line.size();
  return true;
}

// False: a field that must be there is blank.
bool append_identity(std::string& out, const TensortapIdentity& identity) {
  const struct {
    const char* name;
    const char* value;
    bool optional;
  } texts[] = {
      {"implementation_id", identity.implementation_id, true},
      {"workload_id", identity.workload_id, false},
      {"model_id", identity.model_id, false},
      {"config_id", identity.config_id, false},
      {"data_id", identity.data_id, false},
      {"seed_policy", identity.seed_policy, false},
      {"precision", identity.precision, false},
      {"device_state", identity.device_state, false},
      {"pair_id", identity.pair_id, true},
  };
  if (identity.physical_batch == 0 || identity.accumulation_steps == 0) return false;
  out = "{\"kind\":\"note\",\"comparison_identity\":{\"physical_batch\":";
  append_json_number(out, identity.physical_batch);
  append_json_number(out += ",\"accumulation_steps\":", identity.accumulation_steps);
  for (const auto& text : texts) {
    if (text.value == nullptr && text.optional) continue;
    if (text.value == nullptr || is_blank(text.value) || std::strlen(text.value) > kMaxTagValue) return false;
    ((out += ",\"") += text.name) += "\":";
    append_json_string(out, text.value);
  }
  out += "}}\n";
  return true;
}

}  // namespace

bool note_tag(std::string_view key, std::string_view value) noexcept {
  if (is_blank(key) || key.size() > kMaxTagKey || value.size() > kMaxTagValue) return false;
  if (!remember_tag(key, value)) return false;
  try {
    std::string line;
    append_tag(line, key, value);
    write_line(line);
  } catch (...) {  // out of memory: the next capture has it
  }
  return true;
}

bool note_identity(const TensortapIdentity& identity) noexcept {
  if (identity.size < sizeof identity) return false;
  try {
    std::string line;
    if (!append_identity(line, identity) || !remember_identity(line)) return false;
    write_line(line);
    return true;
  } catch (...) {
    return false;
  }
}

void append_notes(std::string& out) {
  BriefFlag flag(g_flag);
  if (!flag) return;
  for (std::size_t i = 0; i < g_tag_count; ++i) {
    const Tag& tag = g_tags[i];
    append_tag(out, {tag.key, tag.key_length}, {tag.value, tag.value_length});
  }
  out.append(g_identity, g_identity_length);
}

void notes_after_fork() noexcept { g_flag.clear(std::memory_order_release); }

}  // namespace tensortap::probe
