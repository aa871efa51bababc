// Chat templates: the part of Jinja that checkpoints use, as Hugging Face transformers renders it
// (trim_blocks, lstrip_blocks, raise_exception, strftime_now, its tojson). What is not known is refused when
// the template is parsed. Used by ChatTemplate.
#pragma once
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>

#include "chat/marked_text.h"
#include "chat/value.h"

namespace carat::jinja {

/// How much one rendering may cost. A template is part of a checkpoint, which may come from anybody.
struct RenderLimits {
  int64_t steps = 4'000'000;                // expressions, statements, list items
  int64_t text_bytes = int64_t{128} << 20;  // written to texts, intermediate ones included
  int depth = 1000;                         // of nested expressions, blocks and macro calls
};

/// Immutable; may be rendered from any thread.
class Template {
 public:
  /// Throws Error{corrupt} for bad syntax and Error{unsupported} for what is not known of Jinja, with `name`,
  /// line and column.
  static std::shared_ptr<const Template> parse(std::string_view source, const std::string& name);
  virtual ~Template() = default;

  /// Throws Error{invalid_argument} or Error{unsupported} with name, line and column: for raise_exception(),
  /// values of the wrong type, and beyond the limits. `now` is what strftime_now() shows.
  virtual MarkedText render(const Map& variables, std::time_t now, const RenderLimits& limits = {}) const = 0;
};

}  // namespace carat::jinja
