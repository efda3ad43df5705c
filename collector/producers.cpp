#include "collector/producers.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <utility>

namespace tensortap::collector {

namespace json = boost::json;

namespace {

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool is_named(const std::string& name, std::string_view word) {
  return word == name || base_name(word) == name;
}

void put(json::object& object, std::string_view key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}
template <class Number>
void put(json::object& object, std::string_view key, const std::optional<Number>& number) {
  if (number) object[key] = *number;
}

}  // namespace

bool fits(const Selector& selector, const Producer& producer) {
  const RunInfo& who = producer.who;
  if (selector.uid && *selector.uid != who.uid) return false;
  if (selector.pid && *selector.pid != who.pid) return false;
  if (selector.rank && selector.rank != who.rank) return false;
  if (!selector.launch.empty() && selector.launch != who.launch) return false;
  if (selector.name.empty() || is_named(selector.name, who.exe)) return true;
  return std::any_of(who.command.begin(), who.command.end(),
                     [&](const std::string& word) { return is_named(selector.name, word); });
}

std::string producer_line(const Producer& producer) {
  const RunInfo& who = producer.who;
  json::object object{{"kind", "producer"}, {"pid", who.pid}, {"state", producer.state}};
  put(object, "exe", who.exe);
  json::array command;
  for (const std::string& word : who.command) command.emplace_back(word);
  object["command"] = std::move(command);
  put(object, "torch", who.torch);
  for (auto& [key, value] : rank_json(who)) object[key] = value;
  put(object, "launch", who.launch);
  put(object, "parent_run", who.parent_run);
  put(object, "run", producer.run);
  put(object, "last_run", producer.last_run);
  put(object, "step", producer.step);
  put(object, "rings", producer.rings);
  put(object, "offered", producer.offered);
  put(object, "dropped", producer.dropped);
  put(object, "error", producer.error);
  boost::system::error_code bad;
  if (!producer.always_on.empty()) {
    if (json::value counts = json::parse(producer.always_on, bad); !bad)
      object["always_on"] = std::move(counts);
  }
  return json::serialize(object) + "\n";
}

Producers::Ticket Producers::add(Producer producer, Post post) {
  const std::lock_guard guard(mutex_);
  entries_.emplace(next_, Entry{std::move(producer), std::move(post)});
  return next_++;
}

void Producers::update(Ticket ticket, Producer producer) {
  const std::lock_guard guard(mutex_);
  if (const auto entry = entries_.find(ticket); entry != entries_.end()) {
    entry->second.producer = std::move(producer);
  }
}

void Producers::remove(Ticket ticket) {
  const std::lock_guard guard(mutex_);
  entries_.erase(ticket);
}

std::vector<Producer> Producers::list(const Selector& selector) const {
  const std::lock_guard guard(mutex_);
  std::vector<Producer> found;
  for (const auto& [ticket, entry] : entries_) {
    if (fits(selector, entry.producer)) found.push_back(entry.producer);
  }
  return found;
}

std::vector<Producer> Producers::order(const Selector& selector, const std::string& line) const {
  std::vector<Producer> found;
  std::vector<Post> posts;
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [ticket, entry] : entries_) {
      if (!fits(selector, entry.producer)) continue;
      found.push_back(entry.producer);
      posts.push_back(entry.post);
    }
  }
  for (const Post& post : posts) post(line);
  return found;
}

}  // namespace tensortap::collector
