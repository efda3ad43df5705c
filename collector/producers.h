// The probes that are connected at this moment: who they are, what they do, and a way to tell them something.
//
//   const Producers::Ticket ticket = producers.add(producer, post);   // a connection has said who it is
//   producers.update(ticket, producer);                               // …and what it does now
//   for (const Producer& p : producers.order({.pid = 71}, line)) …    // `line` went to each of these
//   producers.remove(ticket);
//
// Thread rules: any thread. `post` is called without the lock, from any thread, and must return at once.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/run_info.h"

namespace tensortap::collector {

struct Producer {
  RunInfo who;           // pid, exe, command, torch, rank, launch, …: of the process, not of a run
  std::string state;     // as the probe says it: idle, watching, ready, capturing, closing, always-on
  std::string run;       // of the capture that is open, "" when none is
  std::string last_run;  // of the capture that began last, open or over
  std::string error;     // why the last order was not obeyed
  std::optional<std::uint64_t> step, rings, offered, dropped;
  std::string always_on;  // JSON of the last counts that were sent, "" when there are none
};

// Which of them: every member that is given must fit.
struct Selector {
  std::optional<std::int64_t> pid, rank;
  std::optional<std::uint64_t> uid = std::nullopt;  // not the client's to say: what its own user may see
  std::string name;  // the executable, or a word of the command line, or its base name
  std::string launch;
};

bool fits(const Selector& selector, const Producer& producer);

// One line for control clients, with its LF (proto/session.md).
std::string producer_line(const Producer& producer);

class Producers {
 public:
  using Ticket = std::uint64_t;
  using Post = std::function<void(const std::string& line)>;

  Ticket add(Producer producer, Post post);
  void update(Ticket ticket, Producer producer);
  void remove(Ticket ticket);  // 0: does nothing

  std::vector<Producer> list(const Selector& selector) const;
  std::vector<Producer> order(const Selector& selector, const std::string& line) const;

 private:
  struct Entry {
    Producer producer;
    Post post;
  };
  mutable std::mutex mutex_;
  std::map<Ticket, Entry> entries_;
  Ticket next_ = 1;
};

}  // namespace tensortap::collector
