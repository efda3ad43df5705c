// Reads a report value without trusting its shape: what is missing or of another type is nothing, 0 or "".
//
// Ownership: borrows the report. Thread rules: plain values.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <string>
#include <string_view>

namespace tensortap::analyzers {

class ReportView {
 public:
  explicit ReportView(const boost::json::value* value) : value_(value) {}
  explicit ReportView(const boost::json::value& value) : value_(&value) {}

  ReportView operator[](std::string_view key) const {
    const boost::json::object* object = value_ ? value_->if_object() : nullptr;
    return ReportView(object ? object->if_contains(key) : nullptr);
  }
  bool present() const { return value_ && !value_->is_null(); }
  bool is_null() const { return value_ && value_->is_null(); }  // written, and null
  std::uint64_t number() const {
    if (!value_) return 0;
    if (value_->is_uint64()) return value_->get_uint64();
    return value_->is_int64() && value_->get_int64() > 0 ? static_cast<std::uint64_t>(value_->get_int64())
                                                         : 0;
  }
  std::string text() const {
    const boost::json::string* string = value_ ? value_->if_string() : nullptr;
    return string ? std::string(string->data(), string->size()) : std::string();
  }
  bool is_true() const { return value_ && value_->is_bool() && value_->get_bool(); }
  const boost::json::array& items() const {
    static const boost::json::array kNone;
    const boost::json::array* array = value_ ? value_->if_array() : nullptr;
    return array ? *array : kNone;
  }
  const boost::json::object& members() const {
    static const boost::json::object kNone;
    const boost::json::object* object = value_ ? value_->if_object() : nullptr;
    return object ? *object : kNone;
  }

  // Of a figure.
  std::uint64_t value() const { return (*this)["value"].number(); }
  bool known() const { return (*this)["value"].present(); }
  bool partial() const { return (*this)["status"].text() == "partial"; }

 private:
  const boost::json::value* value_;
};

}  // namespace tensortap::analyzers
