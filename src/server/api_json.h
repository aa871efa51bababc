// Writes JSON in the order of the calls, straight into a string. Used for every body and event that the APIs
// send.
#pragma once
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace carat {

/// Each value follows a name() inside an object, and stands alone in an array; commas come by themselves.
class JsonText {
 public:
  template <class Members>
  JsonText& object(const Members& members) {
    open('{');
    members();
    return close('}');
  }
  template <class Items>
  JsonText& array(const Items& items) {
    open('[');
    items();
    return close(']');
  }

  JsonText& name(std::string_view name);
  /// Bytes that are not UTF-8 become U+FFFD.
  JsonText& text(std::string_view text);
  JsonText& null() { return raw("null"); }
  JsonText& boolean(bool value) { return raw(value ? "true" : "false"); }
  JsonText& integer(int64_t value);
  /// The shortest digits that read back as the same value of that type; null for what is not finite.
  JsonText& number(double value);
  JsonText& number(float value);
  /// A value that is JSON already.
  JsonText& raw(std::string_view json);
  /// Members that are JSON already, `"a":1,"b":2`.
  JsonText& members(std::string_view json) { return json.empty() ? *this : raw(json); }

  JsonText& value(std::string_view value) { return text(value); }
  JsonText& value(const char* value) { return text(value); }
  JsonText& value(const std::string& value) { return text(value); }
  JsonText& value(std::nullptr_t) { return null(); }
  JsonText& value(std::same_as<bool> auto value) { return boolean(value); }
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  JsonText& value(T value) {
    return integer(static_cast<int64_t>(value));
  }
  JsonText& value(std::floating_point auto value) { return number(value); }

  template <class T>
  JsonText& field(std::string_view field_name, const T& field_value) {
    return name(field_name).value(field_value);
  }

  std::string take() { return std::move(text_); }

 private:
  void open(char bracket);
  JsonText& close(char bracket);
  void separate();

  std::string text_;
  bool needs_comma_ = false;
};

/// `text` as a JSON string, quotes included.
std::string json_string(std::string_view text);

}  // namespace carat
