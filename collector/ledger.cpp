#include "collector/ledger.h"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <limits>
#include <utility>

#include "collector/json_fields.h"

namespace tensortap::collector {

namespace json = boost::json;

namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kStages = {{
    {"ring_full", "ring"},
    {"no_ring", "ring"},
    {"nesting_too_deep", "ring"},
    {"in_flight", "ring"},
    {"unfinished_line", "socket"},
    {"lines_missing", "socket"},
    {"bad_line", "daemon"},
    {"line_before_meta", "daemon"},
    {"line_after_terminal", "daemon"},
    {"repeated_meta", "daemon"},
    {"line_too_long", "daemon"},
    {"note_refused", "daemon"},
    {"refused", "daemon"},
    {"quota_bytes", "daemon"},
    {"quota_runs", "daemon"},
    {"write_failed", "disk"},
    {"ring_malformed", "tail"},
    {"recovery_limit", "tail"},
    {"unaccounted", "tail"},
}};

// A producer may lie about its counts: sums stay where they are rather than wrap around.
std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  return a > std::numeric_limits<std::uint64_t>::max() - b ? std::numeric_limits<std::uint64_t>::max()
                                                           : a + b;
}

json::object thread_json(const ThreadAccount& account) {
  json::object object{{"ring", account.ring}};
  if (account.thread != 0) object["thread"] = account.thread;
  if (account.tid != 0) object["tid"] = account.tid;
  object["offered"] = account.offered;
  object["stored"] = account.stored;
  if (!account.dropped.empty()) object["dropped"] = counts_json(account.dropped);
  return object;
}

json::array threads_json(std::vector<ThreadAccount> threads, std::size_t most) {
  json::array rows;
  if (threads.size() > most) {
    std::stable_sort(threads.begin(), threads.end(), [](const ThreadAccount& a, const ThreadAccount& b) {
      const std::uint64_t lost_a = sum_of(a.dropped), lost_b = sum_of(b.dropped);
      return lost_a != lost_b ? lost_a > lost_b : a.offered > b.offered;
    });
  }
  const std::size_t shown = std::min(most, threads.size());
  for (std::size_t i = 0; i < shown; ++i) rows.push_back(thread_json(threads[i]));
  if (shown == threads.size()) return rows;
  ThreadAccount rest;
  for (std::size_t i = shown; i < threads.size(); ++i) {
    rest.offered = plus(rest.offered, threads[i].offered);
    rest.stored = plus(rest.stored, threads[i].stored);
    add_to(rest.dropped, threads[i].dropped);
  }
  json::object row = thread_json(rest);
  row["ring"] = nullptr;
  row["rings"] = threads.size() - shown;
  rows.push_back(std::move(row));
  return rows;
}

ThreadAccount parse_thread(const json::object& object) {
  ThreadAccount account;
  account.ring = static_cast<std::uint32_t>(unsigned_field(object, "ring").value_or(0));
  account.thread = static_cast<std::uint32_t>(unsigned_field(object, "thread").value_or(0));
  account.tid = unsigned_field(object, "tid").value_or(0);
  account.offered = unsigned_field(object, "offered").value_or(0);
  account.stored = unsigned_field(object, "stored").value_or(0);
  account.dropped = parse_counts(object, "dropped");
  return account;
}

// One ring: what it published, less what is not on disk.
ThreadAccount settle_ring(ThreadAccount account, const format::Cursor* cursor, const Losses& losses,
                          bool& numbered, std::uint64_t& on_disk) {
  const std::uint64_t published = account.stored;
  const bool unnumbered = cursor != nullptr && cursor->records == 0 && cursor->position != 0;
  numbered = numbered && !unnumbered;
  if (!unnumbered) {
    const std::uint64_t reached = cursor == nullptr ? 0 : cursor->records;
    on_disk = plus(on_disk, reached);
    account.stored = reached;
    if (published > reached && losses.ended) {
      account.dropped[losses.missing_cause.empty() ? "unaccounted" : losses.missing_cause] +=
          published - reached;
    }
  }
  // Killed between counting and storing: at most one record of a thread. Of a producer that lives: on its
  // way.
  const std::uint64_t known = plus(account.stored, sum_of(account.dropped));
  if (account.offered > known && losses.ended) account.dropped["in_flight"] += account.offered - known;
  account.offered = losses.ended ? std::max(account.offered, known) : known;
  return account;
}

}  // namespace

std::uint64_t sum_of(const Counts& counts) {
  std::uint64_t sum = 0;
  for (const auto& [cause, count] : counts) sum = plus(sum, count);
  return sum;
}

void add_to(Counts& into, const Counts& more) {
  for (const auto& [cause, count] : more) into[cause] = plus(into[cause], count);
}

std::string_view stage_of(std::string_view cause) {
  const auto known =
      std::find_if(kStages.begin(), kStages.end(), [&](const auto& entry) { return entry.first == cause; });
  return known == kStages.end() ? std::string_view("producer") : known->second;
}

Ledger settle_rings(const RingTally& tally, const std::vector<format::Cursor>& on_disk,
                    const Losses& losses) {
  Ledger ledger;
  ledger.records = true;
  std::map<std::uint32_t, const format::Cursor*> reached;
  for (const format::Cursor& cursor : on_disk) reached[cursor.ring] = &cursor;
  Sequence sequence;
  sequence.recovered = losses.recovered;
  bool numbered = true;
  for (const ThreadAccount& ring : tally.rings) {
    const auto cursor = reached.find(ring.ring);
    sequence.published = plus(sequence.published, ring.stored);
    ledger.threads.push_back(settle_ring(ring, cursor == reached.end() ? nullptr : cursor->second, losses,
                                         numbered, sequence.on_disk));
    const ThreadAccount& settled = ledger.threads.back();
    ledger.stored = plus(ledger.stored, settled.stored);
    add_to(ledger.dropped, settled.dropped);
  }
  if (numbered) ledger.sequence = sequence;
  // A line that was refused is (at least a part of) a record that came and was not stored.
  for (const auto& [cause, lines] : losses.refused) {
    const std::uint64_t records = std::min(lines, ledger.stored);
    if (records == 0) continue;
    ledger.stored -= records;
    ledger.dropped[cause] = plus(ledger.dropped[cause], records);
  }
  ledger.offered = plus(ledger.stored, sum_of(ledger.dropped));
  return ledger;
}

json::object counts_json(const Counts& counts) {
  json::object object;
  for (const auto& [name, value] : counts) object[name] = value;
  return object;
}

Counts parse_counts(const json::object& object, std::string_view key) {
  Counts counts;
  if (const json::object* member = find_object(object, key)) {
    for (const auto& [name, value] : *member) {
      if (const auto number = as_unsigned(value)) counts[std::string(name)] = *number;
    }
  }
  return counts;
}

json::object ledger_json(const Ledger& ledger, std::size_t threads) {
  json::object object{{"unit", ledger.records ? "record" : "line"},
                      {"offered", ledger.offered},
                      {"stored", ledger.stored},
                      {"dropped", counts_json(ledger.dropped)}};
  std::map<std::string, Counts> stages;
  for (const auto& [cause, count] : ledger.dropped) stages[std::string(stage_of(cause))][cause] = count;
  if (!stages.empty()) {
    json::object by_stage;
    for (const auto& [stage, counts] : stages) by_stage[stage] = counts_json(counts);
    object["stages"] = std::move(by_stage);
  }
  if (!ledger.threads.empty()) object["threads"] = threads_json(ledger.threads, threads);
  if (ledger.sequence) {
    object["sequence"] = {{"published", ledger.sequence->published},
                          {"on_disk", ledger.sequence->on_disk},
                          {"recovered", ledger.sequence->recovered}};
  }
  const auto& tail = ledger.unknown_tail_bytes_max;
  object["unknown_tail_bytes_max"] = tail ? json::value(*tail) : json::value(nullptr);
  return object;
}

Ledger parse_ledger(const json::object& object) {
  Ledger ledger;
  ledger.records = string_field(object, "unit") == "record";
  ledger.offered = unsigned_field(object, "offered").value_or(0);
  ledger.stored = unsigned_field(object, "stored").value_or(0);
  ledger.dropped = parse_counts(object, "dropped");
  ledger.unknown_tail_bytes_max = unsigned_field(object, "unknown_tail_bytes_max");
  if (const json::object* numbers = find_object(object, "sequence")) {
    ledger.sequence = Sequence{unsigned_field(*numbers, "published").value_or(0),
                               unsigned_field(*numbers, "on_disk").value_or(0),
                               unsigned_field(*numbers, "recovered").value_or(0)};
  }
  const json::value* rows = object.if_contains("threads");
  if (rows == nullptr || !rows->is_array()) return ledger;
  for (const json::value& row : rows->get_array()) {
    if (const json::object* thread = row.if_object()) ledger.threads.push_back(parse_thread(*thread));
  }
  return ledger;
}

}  // namespace tensortap::collector
