#include "probe/torch/module_settings.h"

#include <cxxabi.h>
#include <torch/nn.h>
#include <torch/version.h>

#include <cstdlib>
#include <string>
#include <typeinfo>

namespace tensortap::probe {

namespace {

// Settings one after another, counted.
class Settings {
 public:
  explicit Settings(NodeWriter& facts) noexcept : facts_(facts) {}
  void add(const char* name, bool value) { name_of(name).boolean(value); }
  void add(const char* name, std::int64_t value) { name_of(name).integer(value); }
  void add(const char* name, double value) { name_of(name).real(value); }
  template <std::size_t D>
  void add(const char* name, const torch::ExpandingArray<D>& value) {
    name_of(name).integers(value->data(), D);
  }
  void add(const char* name, const std::vector<std::int64_t>& value) {
    name_of(name).integers(value.data(), static_cast<std::uint32_t>(value.size() < 16 ? value.size() : 16));
  }
  void add(const char* name, const std::string& value) { name_of(name).string(value); }
  template <class T>
  void add(const char* name, const c10::optional<T>& value) {
    if (value.has_value()) {
      add(name, *value);
    } else {
      name_of(name).none();
    }
  }
  std::int64_t count() const noexcept { return count_; }

 private:
  NodeWriter& name_of(const char* name) {
    ++count_;
    facts_.string(name);
    return facts_;
  }
  NodeWriter& facts_;
  std::int64_t count_ = 0;
};

#if TORCH_VERSION_MAJOR < 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 0)
using c10::get_if;
using c10::holds_alternative;
#else
using std::get_if;
using std::holds_alternative;
#endif

template <std::size_t D, class Padding>
void add_padding(Settings& out, const Padding& padding) {
  if (const auto* numbers = get_if<torch::ExpandingArray<D>>(&padding)) {
    out.add("padding", *numbers);
  } else {
    out.add("padding", std::string(holds_alternative<torch::enumtype::kSame>(padding) ? "same" : "valid"));
  }
}

template <std::size_t D, class Impl>
void convolution(Settings& out, const Impl& module) {
  const auto& options = module.options;
  out.add("in_channels", options.in_channels());
  out.add("out_channels", options.out_channels());
  out.add("kernel_size", options.kernel_size());
  out.add("stride", options.stride());
  add_padding<D>(out, options.padding());
  out.add("dilation", options.dilation());
  out.add("groups", options.groups());
  out.add("bias", options.bias());
  out.add("transposed", options.transposed());
}

template <class Impl>
void max_pool(Settings& out, const Impl& module) {
  out.add("kernel_size", module.options.kernel_size());
  out.add("stride", module.options.stride());
  out.add("padding", module.options.padding());
  out.add("dilation", module.options.dilation());
  out.add("ceil_mode", module.options.ceil_mode());
}

template <class Impl>
void average_pool(Settings& out, const Impl& module) {
  out.add("kernel_size", module.options.kernel_size());
  out.add("stride", module.options.stride());
  out.add("padding", module.options.padding());
  out.add("ceil_mode", module.options.ceil_mode());
  out.add("count_include_pad", module.options.count_include_pad());
}

void linear(Settings& out, const torch::nn::LinearImpl& module) {
  out.add("in_features", module.options.in_features());
  out.add("out_features", module.options.out_features());
  out.add("bias", module.options.bias());
}

template <class Impl>
void dropout(Settings& out, const Impl& module) {
  out.add("p", module.options.p());
  out.add("inplace", module.options.inplace());
}

template <class Impl>
void inplace_only(Settings& out, const Impl& module) {
  out.add("inplace", module.options.inplace());
}

void layer_norm(Settings& out, const torch::nn::LayerNormImpl& module) {
  out.add("normalized_shape", module.options.normalized_shape());
  out.add("eps", module.options.eps());
  out.add("elementwise_affine", module.options.elementwise_affine());
}

void group_norm(Settings& out, const torch::nn::GroupNormImpl& module) {
  out.add("num_groups", module.options.num_groups());
  out.add("num_channels", module.options.num_channels());
  out.add("eps", module.options.eps());
  out.add("affine", module.options.affine());
}

template <class Impl>
void statistics_norm(Settings& out, const Impl& module) {
  out.add("num_features", module.options.num_features());
  out.add("eps", module.options.eps());
  out.add("momentum", module.options.momentum());
  out.add("affine", module.options.affine());
  out.add("track_running_stats", module.options.track_running_stats());
}

void embedding(Settings& out, const torch::nn::EmbeddingImpl& module) {
  out.add("num_embeddings", module.options.num_embeddings());
  out.add("embedding_dim", module.options.embedding_dim());
  out.add("padding_idx", module.options.padding_idx());
  out.add("max_norm", module.options.max_norm());
}

void attention(Settings& out, const torch::nn::MultiheadAttentionImpl& module) {
  out.add("embed_dim", module.options.embed_dim());
  out.add("num_heads", module.options.num_heads());
  out.add("dropout", module.options.dropout());
  out.add("kdim", module.options.kdim());
  out.add("vdim", module.options.vdim());
  out.add("add_zero_attn", module.options.add_zero_attn());
}

template <class Impl>
void dim_only(Settings& out, const Impl& module) {
  out.add("dim", static_cast<std::int64_t>(module.options.dim()));
}

void flatten(Settings& out, const torch::nn::FlattenImpl& module) {
  out.add("start_dim", module.options.start_dim());
  out.add("end_dim", module.options.end_dim());
}

void add_settings(Settings& out, const torch::nn::Module& module) {
  const std::type_info& type = typeid(module);
// Module is a virtual base: no static_cast leads down.
#define TENSORTAP_CASE(Class, function)                                                                  \
  if (type == typeid(torch::nn::Class##Impl)) {                                                          \
    if (const auto* exact = dynamic_cast<const torch::nn::Class##Impl*>(&module)) function(out, *exact); \
    return;                                                                                              \
  }
  TENSORTAP_CASE(Linear, linear)
  TENSORTAP_CASE(Conv1d, convolution<1>)
  TENSORTAP_CASE(Conv2d, convolution<2>)
  TENSORTAP_CASE(Conv3d, convolution<3>)
  TENSORTAP_CASE(MaxPool1d, max_pool)
  TENSORTAP_CASE(MaxPool2d, max_pool)
  TENSORTAP_CASE(MaxPool3d, max_pool)
  TENSORTAP_CASE(AvgPool1d, average_pool)
  TENSORTAP_CASE(AvgPool2d, average_pool)
  TENSORTAP_CASE(AvgPool3d, average_pool)
  TENSORTAP_CASE(Dropout, dropout)
  TENSORTAP_CASE(Dropout2d, dropout)
  TENSORTAP_CASE(Dropout3d, dropout)
  TENSORTAP_CASE(ReLU, inplace_only)
  TENSORTAP_CASE(ReLU6, inplace_only)
  TENSORTAP_CASE(LayerNorm, layer_norm)
  TENSORTAP_CASE(GroupNorm, group_norm)
  TENSORTAP_CASE(BatchNorm1d, statistics_norm)
  TENSORTAP_CASE(BatchNorm2d, statistics_norm)
  TENSORTAP_CASE(BatchNorm3d, statistics_norm)
  TENSORTAP_CASE(InstanceNorm1d, statistics_norm)
  TENSORTAP_CASE(InstanceNorm2d, statistics_norm)
  TENSORTAP_CASE(InstanceNorm3d, statistics_norm)
  TENSORTAP_CASE(Embedding, embedding)
  TENSORTAP_CASE(MultiheadAttention, attention)
  TENSORTAP_CASE(Softmax, dim_only)
  TENSORTAP_CASE(LogSoftmax, dim_only)
  TENSORTAP_CASE(Softmin, dim_only)
  TENSORTAP_CASE(Flatten, flatten)
#undef TENSORTAP_CASE
}

// A class of torch::nn, not one that derives from it.
bool is_torchs(std::string_view name) { return name.substr(0, 11) == "torch::nn::"; }

}  // namespace

void write_module_settings(NodeWriter& facts, const torch::nn::Module& module,
                           std::string_view static_type) noexcept {
  int status = -1;
  char* demangled = abi::__cxa_demangle(typeid(module).name(), nullptr, nullptr, &status);
  const std::string_view name = demangled != nullptr ? std::string_view(demangled) : static_type;
  facts.string(name);
  facts.boolean(is_torchs(name) && name == static_type);
  const NodeWriter::Place counter = facts.here();
  facts.integer(0);
  const NodeWriter::Place first = facts.here();
  try {
    Settings settings(facts);
    add_settings(settings, module);
    facts.count_at(counter, settings.count());
  } catch (...) {
    facts.back_to(first);
  }
  std::free(demangled);
}

}  // namespace tensortap::probe
