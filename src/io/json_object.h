// A JSON object read field by field, with errors that name file, field and value. Keeps the JSON library out
// of the other headers. Used for config.json, generation_config.json and the index of a sharded checkpoint.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace carat {

template <class T>
struct Range {
  T least, most;  // both inclusive
};

/// Throws Error{corrupt} unless `text` is one JSON document and nothing else, without a key twice in one
/// object and nested no deeper than 64.
void check_json(std::string_view text, const std::string& source);

/// A view of one object; the parsed document lives as long as any view of it.
/// A field that is absent gives the fallback. So does null, but only in has() and the list readers: for a
/// plain value null is a mistake in the file, and guessing would hide it.
class JsonObject {
 public:
  /// Throws Error{corrupt} as check_json(), and for what is not an object.
  static JsonObject parse(std::string_view text, const std::string& source);

  /// Present and not null.
  bool has(std::string_view name) const;
  bool is_null(std::string_view name) const;
  std::vector<std::string> keys() const;

  // Typed values. Throw Error{corrupt} for another type and Error{invalid_argument} outside the range.
  int integer(std::string_view name, int fallback, Range<int> range) const;
  float number(std::string_view name, float fallback, Range<float> range) const;
  bool boolean(std::string_view name, bool fallback) const;
  std::string string(std::string_view name, std::string_view fallback) const;
  /// Throws Error{corrupt} also when absent.
  JsonObject object(std::string_view name) const;
  /// The objects of a list; empty when absent or not a list.
  std::vector<JsonObject> objects(std::string_view name) const;
  std::vector<std::string> strings(std::string_view name) const;
  /// One integer or a list of them; empty when absent or null.
  std::vector<int> integers(std::string_view name, Range<int> range) const;

  /// One token id or a list of them, in [0, vocab); empty when absent or null.
  std::vector<int> token_ids(std::string_view name, int vocab) const;

  /// "config.json: text_config.hidden_size", for messages.
  std::string where(std::string_view name) const;
  /// Throws `FILE: FIELD = VALUE: REASON`.
  template <class... Reason>
  [[noreturn]] void reject(ErrorKind kind, std::string_view name, const Reason&... reason) const {
    fail(kind, where(name), " = ", shown(name), ": ", reason...);
  }

 private:
  JsonObject() = default;
  std::string shown(std::string_view name) const;

  std::shared_ptr<const void> document_;
  const void* value_ = nullptr;  // the library's object, inside document_
  std::string source_, prefix_;
};

}  // namespace carat
