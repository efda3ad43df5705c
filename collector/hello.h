// The first line of a probe, checked.
//
//   Result<Hello> hello = parse_hello(line, peer);
//
// Thread rules: a plain value.
#pragma once

#include <string_view>

#include "collector/peer.h"
#include "collector/run_info.h"
#include "format/result.h"

namespace tensortap::collector {

inline constexpr std::uint64_t kProtocol = 1;

struct Hello {
  bool resume = false;
  std::string state;  // not empty: no run yet, the probe waits for orders
  RunInfo info;       // who it is; pid, uid and start time are the kernel's word where it has one
};

format::Result<Hello> parse_hello(std::string_view line, const Peer& peer);

// What the kernel knows of a producer that does not introduce itself.
RunInfo describe_peer(const Peer& peer);

}  // namespace tensortap::collector
