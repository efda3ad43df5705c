// Runs all registered analyzers over one stream of lines and assembles the report document.
//
//   Analysis analysis;
//   analysis.consume_lines(text);            // whole lines, as often as they come (the daemon)
//   boost::json::object report = analysis.report();
//
// The document: {"schema":"tensortap/report/1","run":{…from meta…},"input":{records,
// bad_lines,…},"health":{…},"timing":{…},…}. Members are in a fixed order; the same events give the same
// bytes, live or offline.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "format/event.h"
#include "format/result.h"
#include "format/trace_reader.h"

namespace tensortap::analyzers {

class Analysis {
 public:
  Analysis();
  ~Analysis();
  Analysis(Analysis&&) noexcept;
  Analysis& operator=(Analysis&&) noexcept;

  // Whole lines, each ended by LF. Bad lines are counted with their place, never fatal.
  void consume_lines(std::string_view lines);

  // A whole file, from its beginning. `progress` is told the number of records now and then.
  format::ReadReport consume(format::TraceReader& reader,
                             std::function<void(std::uint64_t records)> progress = nullptr);

  // A meta line that replaces the first one when the report is made (the daemon rewrites coverage at the
  // end).
  void replace_meta(std::string_view meta_line);

  // The account of a run that goes on: what its terminal will say (the daemon's live reports).
  void state_ledger(boost::json::object ledger);

  boost::json::object report() const;

  // For the daemon's own terminal record: the greatest host time seen (spec §1.2 rule 11), the counts behind
  // coverage claims, and whether a terminal was seen.
  struct Facts {
    std::uint64_t latest_ns = 0;
    std::uint64_t operations = 0, tensors = 0, memory_events = 0, device_memory_samples = 0, gradients = 0;
    std::uint64_t open_spans = 0;
    bool train = false;  // a backward or optimizer span was seen
    bool has_meta = false, has_terminal = false;
  };
  Facts facts() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensortap::analyzers
