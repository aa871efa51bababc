// A JSON object of a request, read field by field with errors that name the field. The values themselves are
// those of chat/value.h, so that messages and tools go to the chat template as they came.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/utf8.h"
#include "chat/value.h"
#include "server/api_error.h"
#include "server/api_known_fields.h"

namespace carat {

/// More values than this in one body are refused before they take memory.
inline constexpr std::size_t kMostJsonValues = 1'000'000;

/// The body of a request. Texts carry `origin`. Throws ApiError for what is no JSON object, nests too deep or
/// has too many values.
jinja::Value parse_body(std::string_view body, Origin origin);

/// null counts as absent everywhere. All readers throw ApiError{400} for a value of another type or outside
/// its range.
class ApiFields {
 public:
  /// `object`: a mapping, else ApiError naming `path`; "" for the body.
  ApiFields(jinja::Value object, std::string path);

  /// Null when absent or null.
  const jinja::Value* find(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;
  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most) const;
  std::optional<double> number(std::string_view name, double least, double most) const;
  std::optional<std::string> text(std::string_view name) const;
  /// One of `allowed`.
  std::optional<std::string> one_of(std::string_view name,
                                    std::initializer_list<std::string_view> allowed) const;
  std::optional<ApiFields> object(std::string_view name) const;
  /// Null when absent.
  const std::vector<jinja::Value>* list(std::string_view name) const;
  /// A text, or a list of them.
  std::vector<std::string> texts(std::string_view name) const;
  /// Token ids in [0, vocab).
  std::vector<int32_t> token_ids(std::string_view name, int vocab) const;

  // The same for fields that must be there. As values, texts keep their origin.
  jinja::Value required(std::string_view name) const;
  jinja::Value required_map(std::string_view name) const;
  jinja::Value required_text_value(std::string_view name) const;
  std::string required_text(std::string_view name) const;
  std::string required_one_of(std::string_view name, std::initializer_list<std::string_view> allowed) const;

  /// Says that fields are known and without effect.
  void ignore(std::initializer_list<std::string_view> names) const;
  /// For endpoints that make no reply, so that one body serves them and those that do.
  void ignore_fields_of_replies() const;
  /// To be called when all has been read. Throws for a field that nobody has asked for or ignored: for one
  /// that asks for something (see asks_for_something()), and when `strict` for one that no endpoint knows.
  void refuse_rest(bool strict) const;

  /// "messages[2].content", for messages.
  std::string path(std::string_view name) const;
  template <class... Parts>
  [[noreturn]] void reject(std::string_view name, const Parts&... parts) const {
    bad_request(path(name), path(name), " ", parts...);
  }
  const jinja::Map& map() const { return *object_.as_map(); }

 private:
  jinja::Value object_;
  std::string path_;
  mutable FieldNames known_;
};

/// The ids of a list, each an integer in [0, vocab).
std::vector<int32_t> token_ids(const std::vector<jinja::Value>& list, const std::string& path, int vocab);

/// "PATH[3]"
std::string element_path(const std::string& path, std::size_t index);

}  // namespace carat
