#include "probe/launch/flat_json.h"

#include <cstddef>
#include <cstdint>

namespace tensortap::probe {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool object(FlatObject& out) {
    if (!take('{')) return false;
    if (take('}')) return at_end();
    do {
      auto& [key, value] = out.emplace_back();
      if (!string(key) || !take(':') || !any_value(value)) return false;
    } while (take(','));
    return take('}') && at_end();
  }

 private:
  void skip_blank() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool take(char wanted) {
    skip_blank();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  bool at_end() {
    skip_blank();
    return at_ == text_.size();
  }

  bool any_value(std::string& out) {
    skip_blank();
    if (at_ >= text_.size()) return false;
    if (text_[at_] == '"') return string(out);
    const std::size_t begin = at_;
    if (text_[at_] == '{' || text_[at_] == '[') {
      if (!skip_container()) return false;
    } else {
      at_ = std::min(text_.find_first_of(",}] \t\r\n", at_), text_.size());
    }
    out = text_.substr(begin, at_ - begin);
    if (out == "null") out.clear();
    return at_ > begin;
  }

  // Only the borders matter: brackets are counted, strings stepped over.
  bool skip_container() {
    std::size_t depth = 0;
    std::string ignored;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        if (!string(ignored)) return false;
        continue;
      }
      ++at_;
      if (c == '{' || c == '[') ++depth;
      if ((c == '}' || c == ']') && --depth == 0) return true;
    }
    return false;
  }

  bool string(std::string& out) {
    if (!take('"')) return false;
    out.clear();
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') return true;
      if (c != '\\') {
        out += c;
      } else if (!escape(out)) {
        return false;
      }
    }
    return false;
  }

  bool escape(std::string& out) {
    if (at_ >= text_.size()) return false;
    const char c = text_[at_++];
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    if (c == 'u') return unicode_escape(out);
    const std::size_t index = kNames.find(c);
    if (index == std::string_view::npos) return false;
    out += kValues[index];
    return true;
  }

  bool hex4(std::uint32_t& out) {
    if (text_.size() - at_ < 4) return false;
    out = 0;
    for (int i = 0; i < 4; ++i) {
      const std::size_t digit =
          std::string_view("0123456789abcdef").find(static_cast<char>(text_[at_++] | 0x20));
      if (digit == std::string_view::npos) return false;
      out = out * 16 + static_cast<std::uint32_t>(digit);
    }
    return true;
  }

  bool unicode_escape(std::string& out) {
    std::uint32_t code = 0;
    if (!hex4(code)) return false;
    if (code >= 0xD800 && code < 0xDC00 && text_.substr(at_, 2) == "\\u") {  // a surrogate pair
      std::uint32_t low = 0;
      at_ += 2;
      if (!hex4(low)) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(out, code);
    return true;
  }

  static void append_utf8(std::string& out, std::uint32_t code) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | (code >> 12));
      tail(6), tail(0);
    } else {
      out += static_cast<char>(0xF0 | ((code >> 18) & 0x07));
      tail(12), tail(6), tail(0);
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<FlatObject> parse_flat_object(std::string_view text) {
  FlatObject out;
  if (!Reader(text).object(out)) return std::nullopt;
  return out;
}

std::vector<FlatObject> parse_objects(std::string_view array) {
  std::vector<FlatObject> objects;
  int depth = 0;
  bool in_string = false;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < array.size(); ++at) {
    const char c = array[at];
    if (in_string) {
      if (c == '\\') ++at;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' && depth++ == 0) {
      begin = at;
    } else if (c == '}' && --depth == 0) {
      if (auto object = parse_flat_object(array.substr(begin, at + 1 - begin)))
        objects.push_back(std::move(*object));
    }
  }
  return objects;
}

std::string_view member(const FlatObject& object, std::string_view key) {
  for (const auto& [name, value] : object) {
    if (name == key) return value;
  }
  return {};
}

std::string json_quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

}  // namespace tensortap::probe
