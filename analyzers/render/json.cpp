#include "analyzers/render/json.h"

#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>

namespace tensortap::analyzers {
namespace {

void new_line(std::string& out, int depth) {
  out += '\n';
  out.append(static_cast<std::size_t>(depth) * 2, ' ');
}

bool is_figure(const boost::json::object& object) { return object.contains("unit"); }

void write(std::string& out, const boost::json::value& value, int depth) {
  if (const auto* object = value.if_object(); object && !object->empty() && !is_figure(*object)) {
    const char* separator = "{";
    for (const auto& [key, member] : *object) {
      out += separator;
      separator = ",";
      new_line(out, depth + 1);
      out += boost::json::serialize(key) + ": ";
      write(out, member, depth + 1);
    }
    new_line(out, depth);
    out += '}';
  } else if (const auto* array = value.if_array(); array && !array->empty() && array->front().is_object()) {
    const char* separator = "[";
    for (const auto& item : *array) {
      out += separator;
      separator = ",";
      new_line(out, depth + 1);
      out += boost::json::serialize(item);
    }
    new_line(out, depth);
    out += ']';
  } else {
    out += boost::json::serialize(value);
  }
}

}  // namespace

std::string report_json(const boost::json::object& report) {
  std::string out;
  write(out, report, 0);
  out += '\n';
  return out;
}

}  // namespace tensortap::analyzers
