// The trees of live torch::nn modules of a C++ job, and from them the path of each module in its tree.
//
// torch exports the constructors of Module and not its destructor, and a program that registers or drops a
// module calls nothing that could be hooked. So the tree knows addresses (from constructors and calls), and
// `refresh` reads what stands there now: by copying (self_memory.h), never by following the job's pointers,
// and never with a shared_ptr of ours: the job's other threads may be building or destroying modules
// meanwhile, and a module on a stack may be long gone. An address is a live module while its vtable lies in a
// loaded object, its owner (if it has one) counts at least one, and all its children are modules. What passes
// for alive though it is dead can only give a wrong name, and only when it still claims the children of a
// live module; of two roots that claim a module, the newest gets it.
//
//   ModuleTree tree;
//   tree.add(module);            // constructed, or called
//   tree.refresh();
//   const ModuleTree::Node* node = tree.find(module);   // node->path, node->type_name, node->root
//
// Threads: one at a time. Ownership: none of the job's objects; strings are copies. Functions may throw
// bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "probe/torch/job_memory.h"
#include "probe/torch/self_memory.h"

namespace torch {
namespace nn {
class Module;
}
}  // namespace torch

namespace tensortap::probe {

class ModuleTree {
 public:
  using Address = std::uintptr_t;  // of a torch::nn::Module

  struct Child {
    std::string name;
    Address module = 0;
  };
  struct Node {
    std::uint64_t born = 0;  // order of construction; 0: found below another module
    Address vtable = 0;
    std::vector<Child> children;
    bool has_parent = false;
    // Results of the last refresh:
    std::string path;                    // names from the root, joined by dots; empty for a root
    std::string type_name;               // demangled dynamic type
    const char* mangled_type = nullptr;  // type_info::name(): lives as long as the library of the type
    Address root = 0;                    // the module itself when nothing holds it
  };

  ModuleTree();
  void add(Address module);
  // Did anything change: a path, a type, a module that came or went?
  bool refresh();
  const Node* find(Address module) const;
  std::size_t size() const { return nodes_.size(); }
  // The modules of a root's tree, in the order of named_modules().
  std::vector<Address> below(Address root) const;
  std::vector<Address> roots() const;  // in the order of their construction

 private:
  // Where the parts of a Module and of a child entry are: measured on real objects of the torch that we are
  // built for.
  struct Layout {
    std::size_t owner, items, header_bytes;  // in a Module
    ItemLayout item;
  };
  struct Header;
  static Layout measure();
  bool snapshot(const std::vector<Address>& modules, std::vector<Address>* found);
  std::vector<Header> read_headers(const std::vector<Address>& modules);
  void read_children(std::vector<Header>* headers);
  void drop_owned_by_nobody(std::vector<Header>* headers);
  void assign_paths();
  void walk(Address root, Address module, const std::string& path, std::vector<Address>* open);
  void list(Address root, Address module, std::unordered_set<Address>* seen,
            std::vector<Address>* found) const;
  void name_type(Node* node) const;
  std::uint64_t digest() const;

  const Layout layout_;
  SelfMemory memory_;
  LoadedImages images_;
  std::unordered_map<Address, Node> nodes_;
  std::uint64_t births_ = 0;
  std::uint64_t digest_ = 0;
};

}  // namespace tensortap::probe
