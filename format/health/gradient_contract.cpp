#include "format/health/gradient_contract.h"

#include <openssl/evp.h>

#include <array>
#include <memory>
#include <new>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "format/text.h"

namespace tensortap::format {
namespace {

struct FreeDigest {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new()) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
  }
  void add(std::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }
  std::string hex() {
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
    unsigned length = 0;
    EVP_DigestFinal_ex(context_.get(), digest.data(), &length);
    std::string out;
    for (unsigned i = 0; i < length; ++i) {
      out += "0123456789abcdef"[digest[i] >> 4];
      out += "0123456789abcdef"[digest[i] & 15];
    }
    return out;
  }

 private:
  std::unique_ptr<EVP_MD_CTX, FreeDigest> context_;
};

std::string little_endian(std::uint64_t value) {
  std::string out(8, '\0');
  for (char& byte : out) {
    byte = static_cast<char>(value & 0xFF);
    value >>= 8;
  }
  return out;
}

using Members = std::unordered_map<std::string_view, std::uint64_t>;

std::optional<std::string> fault_of_manifest(const GradientContract& contract, Members& members) {
  std::set<std::pair<std::string_view, std::string_view>> keys;
  for (const GradientContract::Entry& entry : contract.expected) {
    if (is_blank(entry.root) || is_blank(entry.key) || is_blank(entry.family)) {
      return "an entry of the manifest has a blank root, key or family";
    }
    if (!keys.emplace(entry.root, entry.key).second) {
      return "the manifest lists " + in_quotes(entry.root) + ", " + in_quotes(entry.key) + " twice";
    }
    ++members[entry.family];
  }
  return std::nullopt;
}

std::optional<std::string> fault_of_families(const GradientContract& contract, const Members& members) {
  std::unordered_set<std::string_view> ruled;
  for (const GradientContract::Family& family : contract.families) {
    const std::string name = "family " + in_quotes(family.family);
    if (is_blank(family.family)) return "a family has a blank name";
    if (!ruled.insert(family.family).second) return name + " is listed twice";
    const auto found = members.find(family.family);
    if (found == members.end()) return name + " has no member in the manifest";
    if (family.expectation == Expectation::kInactive) {
      if (family.min_present != 0) return name + " is inactive, so its min_present must be 0";
    } else if (family.min_present < 1 || family.min_present > found->second) {
      return name + " has min_present " + std::to_string(family.min_present) +
             ", which must be from 1 to its number of members, " + std::to_string(found->second);
    }
  }
  for (const GradientContract::Entry& entry : contract.expected) {
    if (ruled.count(entry.family) == 0) return "family " + in_quotes(entry.family) + " has no rule";
  }
  return std::nullopt;
}

}  // namespace

std::string gradient_manifest_digest(const std::vector<GradientContract::Entry>& expected) {
  using namespace std::string_view_literals;
  Sha256 digest;
  digest.add("candle-graph/gradient-manifest/1\0"sv);
  for (const GradientContract::Entry& entry : expected) {
    for (const std::string* text : {&entry.root, &entry.key, &entry.family}) {
      digest.add(little_endian(text->size()));
      digest.add(*text);
    }
  }
  return "sha256:" + digest.hex();
}

std::optional<std::string> gradient_contract_fault(const GradientContract& contract) {
  if (contract.expected.empty()) return "its manifest is empty";
  if (contract.families.empty()) return "it has no families";
  Members members;
  if (auto fault = fault_of_manifest(contract, members)) return fault;
  if (auto fault = fault_of_families(contract, members)) return fault;
  const std::string digest = gradient_manifest_digest(contract.expected);
  if (digest != contract.manifest_sha256) {
    return "its digest is " + in_quotes(contract.manifest_sha256) + "; that of its manifest is " + digest;
  }
  return std::nullopt;
}

}  // namespace tensortap::format
