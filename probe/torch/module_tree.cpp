#include "probe/torch/module_tree.h"

#include <cxxabi.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <typeinfo>

#include "probe/torch/job_memory.h"

namespace tensortap::probe {
namespace {

using Address = ModuleTree::Address;
using Children = torch::OrderedDict<std::string, std::shared_ptr<torch::nn::Module>>;
using Owner = std::enable_shared_from_this<torch::nn::Module>;

// Module::children_ is private; the rules of access don't apply to an explicit instantiation.
struct ChildrenMember {
  using type = Children torch::nn::Module::*;
  friend type member(ChildrenMember);
};
template <class Tag, typename Tag::type kMember>
struct Expose {
  friend typename Tag::type member(Tag) { return kMember; }
};
template struct Expose<ChildrenMember, &torch::nn::Module::children_>;

constexpr std::size_t kMaxModules = 1 << 16;
constexpr std::size_t kMaxDepth = 256;

}  // namespace

// What was read of one module, and where its child list is.
struct ModuleTree::Header {
  Address module = 0;
  Address vtable = 0;
  RawPointer owner{};
  RawVector items{};
  bool alive = false;
};

ModuleTree::Layout ModuleTree::measure() {
  torch::nn::Module sample;
  const Children& children = sample.*member(ChildrenMember{});
  Layout layout{};
  layout.owner = distance_of(&sample, static_cast<const Owner*>(&sample));
  layout.items = distance_of(&sample, &children.items());
  layout.header_bytes = layout.items + sizeof(RawVector);
  layout.item = item_layout(Children::Item("", nullptr));
  return layout;
}

ModuleTree::ModuleTree() : layout_(measure()) {}

void ModuleTree::add(Address module) {
  const auto found = nodes_.find(module);
  if (found == nodes_.end() && nodes_.size() >= kMaxModules) return;
  Node node;
  node.born = ++births_;
  nodes_[module] = std::move(node);
}

const ModuleTree::Node* ModuleTree::find(Address module) const {
  const auto found = nodes_.find(module);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::vector<ModuleTree::Header> ModuleTree::read_headers(const std::vector<Address>& modules) {
  std::vector<char> bytes(modules.size() * layout_.header_bytes);
  std::vector<SelfMemory::Piece> pieces(modules.size());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    pieces[i] = {modules[i], bytes.data() + i * layout_.header_bytes, layout_.header_bytes, false};
  }
  memory_.read(&pieces);
  std::vector<Header> headers(modules.size());
  for (std::size_t i = 0; i < modules.size(); ++i) {
    Header& header = headers[i];
    header.module = modules[i];
    if (!pieces[i].ok) continue;
    const char* at = bytes.data() + i * layout_.header_bytes;
    header.vtable = copy_at<Address>(at);
    header.owner = copy_at<RawPointer>(at + layout_.owner);
    header.items = copy_at<RawVector>(at + layout_.items);
    header.alive = header.vtable % sizeof(Address) == 0 &&
                   images_.contains(header.vtable - sizeof(Address)) &&
                   is_item_list(header.items, layout_.item) &&
                   (header.owner.control == 0 || header.owner.object == header.module);
  }
  return headers;
}

// A module that was made by make_shared, and whose last owner is gone. One without an owner (on a stack, a
// member) gives no such sign.
void ModuleTree::drop_owned_by_nobody(std::vector<Header>* headers) {
  std::vector<RawControl> controls(headers->size());
  std::vector<SelfMemory::Piece> pieces;
  std::vector<std::size_t> which;
  for (std::size_t i = 0; i < headers->size(); ++i) {
    const Header& header = (*headers)[i];
    if (!header.alive || header.owner.control == 0) continue;
    pieces.push_back({header.owner.control, &controls[i], sizeof(RawControl), false});
    which.push_back(i);
  }
  memory_.read(&pieces);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const RawControl& control = controls[which[i]];
    if (!pieces[i].ok || control.use_count < 1 || !images_.contains(control.vtable))
      (*headers)[which[i]].alive = false;
  }
}

void ModuleTree::read_children(std::vector<Header>* headers) {
  std::vector<std::vector<char>> lists(headers->size());
  std::vector<SelfMemory::Piece> pieces(headers->size());
  for (std::size_t i = 0; i < headers->size(); ++i) {
    const Header& header = (*headers)[i];
    if (header.alive) lists[i].resize(header.items.end - header.items.begin);
    pieces[i] = {header.items.begin, lists[i].data(), lists[i].size(), false};
  }
  memory_.read(&pieces);
  std::vector<SelfMemory::Piece> keys;
  for (std::size_t i = 0; i < headers->size(); ++i) {
    const std::size_t count = pieces[i].ok ? lists[i].size() / layout_.item.bytes : 0;
    for (std::size_t n = 0; n < count; ++n) {
      const std::size_t at = n * layout_.item.bytes + layout_.item.key;
      keys.push_back({(*headers)[i].items.begin + at, lists[i].data() + at, sizeof(std::string), false});
    }
  }
  std::vector<std::string> names = read_strings(memory_, keys);
  std::size_t next = 0;
  for (std::size_t i = 0; i < headers->size(); ++i) {
    if (!(*headers)[i].alive) continue;
    Node& node = nodes_[(*headers)[i].module];
    node.children.clear();
    const std::size_t count = pieces[i].ok ? lists[i].size() / layout_.item.bytes : 0;
    for (std::size_t n = 0; n < count; ++n) {
      const auto value = copy_at<RawPointer>(lists[i].data() + n * layout_.item.bytes + layout_.item.value);
      std::string& name = names[next++];
      if (value.object != 0) node.children.push_back({std::move(name), value.object});
    }
  }
}

// Reads the modules; the dead leave the tree, children not known yet are added to it and to `found`.
bool ModuleTree::snapshot(const std::vector<Address>& modules, std::vector<Address>* found) {
  std::vector<Header> headers = read_headers(modules);
  drop_owned_by_nobody(&headers);
  read_children(&headers);
  for (const Header& header : headers) {
    if (header.alive) {
      nodes_[header.module].vtable = header.vtable;
    } else {
      nodes_.erase(header.module);
    }
  }
  for (const Header& header : headers) {
    if (!header.alive) continue;
    const std::vector<Child> children = nodes_[header.module].children;
    for (const Child& child : children) {
      if (nodes_.size() >= kMaxModules || !nodes_.emplace(child.module, Node{}).second) continue;
      found->push_back(child.module);
    }
  }
  return !found->empty();
}

void ModuleTree::name_type(Node* node) const {
  const Address type = *reinterpret_cast<const Address*>(node->vtable - sizeof(Address));
  const char* mangled = nullptr;
  if (type != 0 && images_.contains(type)) mangled = reinterpret_cast<const std::type_info*>(type)->name();
  if (mangled == node->mangled_type && !node->type_name.empty()) return;
  node->mangled_type = mangled;
  int status = -1;
  char* text = mangled == nullptr ? nullptr : abi::__cxa_demangle(mangled, nullptr, nullptr, &status);
  node->type_name = text != nullptr ? text : mangled != nullptr ? mangled : "module";
  std::free(text);
}

// The order and the names are those of named_modules(): a module that is held in two places has the path met
// first.
void ModuleTree::walk(Address root, Address module, const std::string& path, std::vector<Address>* open) {
  const auto found = nodes_.find(module);
  if (found == nodes_.end() || found->second.root != 0 || open->size() >= kMaxDepth) return;
  Node& node = found->second;
  node.root = root;
  node.path = path;
  open->push_back(module);
  for (const Child& child : node.children)
    walk(root, child.module, path.empty() ? child.name : path + "." + child.name, open);
  open->pop_back();
}

void ModuleTree::assign_paths() {
  for (auto& [address, node] : nodes_) {
    node.root = 0;
    node.has_parent = false;
  }
  for (auto& [address, node] : nodes_) {
    // A list that names what is no module is a dead one's, or one that is just being changed.
    const bool stale = std::any_of(node.children.begin(), node.children.end(),
                                   [&](const Child& child) { return nodes_.count(child.module) == 0; });
    if (stale) node.children.clear();
    for (const Child& child : node.children) nodes_[child.module].has_parent = true;
  }
  std::vector<std::pair<std::uint64_t, Address>> roots;
  for (const auto& [address, node] : nodes_) {
    if (!node.has_parent) roots.emplace_back(node.born, address);
  }
  std::sort(roots.begin(), roots.end(), std::greater<>());
  std::vector<Address> open;
  for (const auto& [born, address] : roots) walk(address, address, "", &open);
  for (auto& [address, node] : nodes_) {
    if (node.root == 0) walk(address, address, "", &open);  // a ring of modules that hold each other
  }
}

void ModuleTree::list(Address root, Address module, std::unordered_set<Address>* seen,
                      std::vector<Address>* found) const {
  const Node* node = find(module);
  if (node == nullptr || node->root != root || !seen->insert(module).second) return;
  found->push_back(module);
  for (const Child& child : node->children) list(root, child.module, seen, found);
}

std::vector<Address> ModuleTree::below(Address root) const {
  std::unordered_set<Address> seen;
  std::vector<Address> found;
  list(root, root, &seen, &found);
  return found;
}

std::vector<Address> ModuleTree::roots() const {
  std::vector<std::pair<std::uint64_t, Address>> born;
  for (const auto& [address, node] : nodes_) {
    if (node.root == address) born.emplace_back(node.born, address);
  }
  std::sort(born.begin(), born.end());
  std::vector<Address> found;
  for (const auto& [order, address] : born) found.push_back(address);
  return found;
}

std::uint64_t ModuleTree::digest() const {
  std::uint64_t sum = 0;
  for (const auto& [address, node] : nodes_) {
    const std::uint64_t parts[] = {address, node.born, node.root, std::hash<std::string>()(node.path),
                                   reinterpret_cast<std::uintptr_t>(node.mangled_type)};
    std::uint64_t hash = 0xCBF29CE484222325ULL;
    for (const std::uint64_t part : parts) hash = (hash ^ part ^ (part >> 32)) * 0x9E3779B97F4A7C15ULL;
    sum += hash;  // whatever the order
  }
  return sum;
}

bool ModuleTree::refresh() {
  images_.update();
  std::vector<Address> modules;
  modules.reserve(nodes_.size());
  for (const auto& [address, node] : nodes_) modules.push_back(address);
  std::vector<Address> found;
  while (!modules.empty() && snapshot(modules, &found)) {
    modules = std::move(found);
    found.clear();
  }
  for (auto& [address, node] : nodes_) {
    if (node.vtable != 0) name_type(&node);
  }
  assign_paths();
  const std::uint64_t before = digest_;
  digest_ = digest();
  return digest_ != before;
}

}  // namespace tensortap::probe
