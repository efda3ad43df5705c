// Where the forward of torch's attention modules takes its masks: the place among the positional arguments,
// and the name. The same in Python and in C++.
//
//   for (const MaskArgument& argument : kMaskArguments)
//     if (takes_mask(argument, "torch::nn::MultiheadAttentionImpl")) …
#pragma once

#include <cstdint>
#include <string_view>

namespace tensortap::probe {

struct MaskArgument {
  std::string_view type;
  std::uint32_t place;
  const char* name;
};

inline constexpr MaskArgument kMaskArguments[] = {
    {"MultiheadAttention", 3, "key_padding_mask"},
    {"MultiheadAttention", 5, "attn_mask"},
    {"TransformerEncoderLayer", 1, "src_mask"},
    {"TransformerEncoderLayer", 2, "src_key_padding_mask"},
    {"TransformerEncoder", 1, "mask"},
    {"TransformerEncoder", 2, "src_key_padding_mask"},
    {"TransformerDecoderLayer", 2, "tgt_mask"},
    {"TransformerDecoderLayer", 3, "memory_mask"},
    {"TransformerDecoderLayer", 4, "tgt_key_padding_mask"},
    {"TransformerDecoderLayer", 5, "memory_key_padding_mask"},
    {"TransformerDecoder", 2, "tgt_mask"},
    {"TransformerDecoder", 3, "memory_mask"},
    {"TransformerDecoder", 4, "tgt_key_padding_mask"},
    {"TransformerDecoder", 5, "memory_key_padding_mask"},
    {"Transformer", 2, "src_mask"},
    {"Transformer", 3, "tgt_mask"},
    {"Transformer", 4, "memory_mask"},
    {"Transformer", 5, "src_key_padding_mask"},
    {"Transformer", 6, "tgt_key_padding_mask"},
    {"Transformer", 7, "memory_key_padding_mask"},
};

// `type`: a class's name as Python has it, or as C++ has it.
inline bool takes_mask(const MaskArgument& argument, std::string_view type) noexcept {
  constexpr std::string_view kSpace = "torch::nn::", kEnd = "Impl";
  if (type.substr(0, kSpace.size()) == kSpace && type.size() > kSpace.size() + kEnd.size() &&
      type.substr(type.size() - kEnd.size()) == kEnd) {
    type = type.substr(kSpace.size(), type.size() - kSpace.size() - kEnd.size());
  }
  return type == argument.type;
}

}  // namespace tensortap::probe
