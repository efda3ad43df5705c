#include "probe/torch/tensor_lists.h"

#include <c10/core/UndefinedTensorImpl.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

namespace tensortap::probe {
namespace {

using Tensors = torch::OrderedDict<std::string, torch::Tensor>;

// Private members; the rules of access don't apply to an explicit instantiation.
template <class Tag, typename Tag::type kMember>
struct Expose {
  friend typename Tag::type member(Tag) { return kMember; }
};
struct ParametersMember {
  using type = Tensors torch::nn::Module::*;
  friend type member(ParametersMember);
};
struct BuffersMember {
  using type = Tensors torch::nn::Module::*;
  friend type member(BuffersMember);
};
template struct Expose<ParametersMember, &torch::nn::Module::parameters_>;
template struct Expose<BuffersMember, &torch::nn::Module::buffers_>;

// The front of every TensorImpl: its vtable, and the counts of c10::intrusive_ptr_target. The strong one
// comes first; since torch 2.10 it is the lower half of one word.
struct RawTensor {
  std::uintptr_t vtable;
  std::uint32_t owners;
};
static_assert(sizeof(torch::Tensor) == sizeof(void*));

}  // namespace

// One dictionary of one module.
struct TensorLists::List {
  std::size_t module = 0;  // its place among those asked for
  bool is_buffers = false;
  RawVector items{};
  std::vector<char> bytes;
  std::size_t count = 0;
};

TensorLists::Layout TensorLists::measure() {
  torch::nn::Module sample;
  const Tensors& parameters = sample.*member(ParametersMember{});
  const Tensors& buffers = sample.*member(BuffersMember{});
  Layout layout{};
  layout.parameters = distance_of(&sample, &parameters.items());
  layout.buffers = distance_of(&sample, &buffers.items());
  layout.header_bytes = std::max(layout.parameters, layout.buffers) + sizeof(RawVector);
  layout.item = item_layout(Tensors::Item("", torch::Tensor()));
  return layout;
}

TensorLists::TensorLists() : layout_(measure()) {}

void TensorLists::read_items(std::vector<List>* lists) {
  std::vector<SelfMemory::Piece> pieces;
  for (List& list : *lists) {
    list.bytes.resize(list.items.end - list.items.begin);
    pieces.push_back({list.items.begin, list.bytes.data(), list.bytes.size(), false});
  }
  memory_.read(&pieces);
  for (std::size_t i = 0; i < lists->size(); ++i) {
    if (pieces[i].ok) (*lists)[i].count = (*lists)[i].bytes.size() / layout_.item.bytes;
  }
}

std::vector<bool> TensorLists::are_alive(const std::vector<std::uintptr_t>& tensors) {
  std::vector<RawTensor> fronts(tensors.size());
  std::vector<SelfMemory::Piece> pieces;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    pieces.push_back({tensors[i], &fronts[i], sizeof(RawTensor), false});
  }
  memory_.read(&pieces);
  const auto undefined = reinterpret_cast<std::uintptr_t>(
      static_cast<const c10::TensorImpl*>(c10::UndefinedTensorImpl::singleton()));
  std::vector<bool> alive(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const RawTensor& front = fronts[i];
    alive[i] = pieces[i].ok && tensors[i] != undefined && front.owners != 0 &&
               front.vtable % sizeof(void*) == 0 && images_.contains(front.vtable);
  }
  return alive;
}

std::vector<std::vector<HeldTensor>> TensorLists::read(const std::vector<std::uintptr_t>& modules) {
  images_.update();
  std::vector<char> headers(modules.size() * layout_.header_bytes);
  std::vector<SelfMemory::Piece> pieces;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    pieces.push_back({modules[i], headers.data() + i * layout_.header_bytes, layout_.header_bytes, false});
  }
  memory_.read(&pieces);
  std::vector<List> lists;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    const char* header = headers.data() + i * layout_.header_bytes;
    for (const bool is_buffers : {false, true}) {
      const auto items = copy_at<RawVector>(header + (is_buffers ? layout_.buffers : layout_.parameters));
      if (pieces[i].ok && is_item_list(items, layout_.item)) lists.push_back({i, is_buffers, items, {}, 0});
    }
  }
  read_items(&lists);

  std::vector<SelfMemory::Piece> keys;
  std::vector<std::uintptr_t> tensors;
  for (List& list : lists) {
    for (std::size_t n = 0; n < list.count; ++n) {
      char* item = list.bytes.data() + n * layout_.item.bytes;
      keys.push_back({list.items.begin + n * layout_.item.bytes + layout_.item.key, item + layout_.item.key,
                      sizeof(std::string), false});
      tensors.push_back(copy_at<std::uintptr_t>(item + layout_.item.value));
    }
  }
  std::vector<std::string> names = read_strings(memory_, keys);
  const std::vector<bool> alive = are_alive(tensors);
  std::vector<std::vector<HeldTensor>> found(modules.size());
  std::size_t next = 0;
  for (const List& list : lists) {
    for (std::size_t n = 0; n < list.count; ++n, ++next) {
      if (!alive[next]) continue;
      found[list.module].push_back(
          {std::move(names[next]), reinterpret_cast<const void*>(tensors[next]), list.is_buffers});
    }
  }
  return found;
}

}  // namespace tensortap::probe
