// White space as trace/10 means it (specification §0.3, §1.1): Unicode's White_Space property; and texts from
// outside in messages.
#pragma once

#include <string>
#include <string_view>

namespace tensortap::format {

// Without leading and trailing white space.
std::string_view trim(std::string_view text);
inline bool is_blank(std::string_view text) { return trim(text).empty(); }

// `text` for a message: in quotes, escaped as in JSON, cut after 64 bytes.
std::string in_quotes(std::string_view text);

}  // namespace tensortap::format
