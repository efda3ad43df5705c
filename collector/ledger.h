// The account of a run: offered = stored + dropped, by stage, cause and thread (proto/session.md, Ledger).
//
//   Ledger ledger = settle_rings(tally, cursors, losses);    // a probe's: ring records
//   boost::json::object object = ledger_json(ledger);        // for run.json, terminal.ext, reports
//
// What is offered is counted where it arises, in the rings; what is stored is counted where it ends, by the
// numbers of records that came with the positions of the frames on disk. So the sum is a proof, not a habit:
// what is missing between the two has a cause, or is called `unaccounted`.
// Thread rules: plain values.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/container.h"

namespace tensortap::collector {

using Counts = std::map<std::string, std::uint64_t>;

std::uint64_t sum_of(const Counts& counts);
void add_to(Counts& into, const Counts& more);

// Where on the way of an event a record was dropped for `cause`: ring, socket, daemon, disk, tail; "producer"
// for what a plain producer says of itself.
std::string_view stage_of(std::string_view cause);

// One ring, which threads use one after another. What the daemon refuses line by line is of no known thread.
struct ThreadAccount {
  std::uint32_t ring = 0;
  std::uint32_t thread = 0;  // serial number of the last thread that had it
  std::uint64_t tid = 0;
  std::uint64_t offered = 0, stored = 0;
  Counts dropped;
};

// What the numbers of records say.
struct Sequence {
  std::uint64_t published = 0;  // by the rings' own counters
  std::uint64_t on_disk = 0;    // by the cursors of the frames that were written
  std::uint64_t recovered = 0;  // of them, read by the daemon out of a dead producer's rings
};

struct Ledger {
  bool records = false;  // counts ring records; else lines
  std::uint64_t offered = 0;
  std::uint64_t stored = 0;
  Counts dropped;
  std::vector<ThreadAccount> threads;
  std::optional<Sequence> sequence;  // none: the producer gave no numbers
  // A tail that nobody read, with its upper bound: nothing = no bound is known, 0 = it is known that there is
  // none.
  std::optional<std::uint64_t> unknown_tail_bytes_max = 0;

  bool adds_up() const { return offered == stored + sum_of(dropped); }
};

// What the producer counted in its rings (ring_recovery.h reads it).
struct RingTally {
  std::vector<ThreadAccount> rings;  // `stored`: published in the ring; those that were ever used
  Counts counters;                   // name → value, only those that are not zero
  std::uint64_t threads_seen = 0;
};

// What happened to records behind the rings.
struct Losses {
  Counts refused;             // cause → lines, by the daemon
  std::string missing_cause;  // of published records that are not on disk: write_failed, ring_malformed, …
  std::uint64_t recovered = 0;
  bool ended = true;  // false: the producer lives, what is missing is on its way
};

Ledger settle_rings(const RingTally& tally, const std::vector<format::Cursor>& on_disk, const Losses& losses);

// `threads`: how many rows at most; the rest is one row without a ring. Those that lost most come first.
boost::json::object ledger_json(const Ledger& ledger, std::size_t threads = 64);
Ledger parse_ledger(const boost::json::object& object);
boost::json::object counts_json(const Counts& counts);
Counts parse_counts(const boost::json::object& object, std::string_view key);

}  // namespace tensortap::collector
