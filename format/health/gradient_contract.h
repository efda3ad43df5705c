// The gradient contract of a meta record: its manifest's digest, and whether it holds together (specification
// §2.3, §2.4).
//
//   contract.manifest_sha256 = gradient_manifest_digest(contract.expected);
//   if (auto fault = gradient_contract_fault(contract)) say(*fault);
//
// Thread rules: pure functions. Not for the job's process (libcrypto).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "format/event.h"

namespace tensortap::format {

// "sha256:" and 64 hexadecimal digits: of `candle-graph/gradient-manifest/1`, a zero byte, and each entry's
// root, key and family, every text behind its length in bytes as 64 bits, little-endian (§2.4).
std::string gradient_manifest_digest(const std::vector<GradientContract::Entry>& expected);

// Why the contract is not valid (§2.3), or nothing.
std::optional<std::string> gradient_contract_fault(const GradientContract& contract);

}  // namespace tensortap::format
