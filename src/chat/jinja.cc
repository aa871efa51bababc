#include "chat/jinja.h"

#include <utility>

#include "chat/jinja_evaluator.h"
#include "chat/jinja_parser.h"

namespace carat::jinja {
namespace {

class ParsedTemplate final : public Template {
 public:
  ParsedTemplate(std::string_view source, const std::string& name)
      : name_(name), block_(parse_template(source, name)) {}

  MarkedText render(const Map& variables, std::time_t now, const RenderLimits& limits) const override {
    Runtime runtime(limits, now);
    return Evaluator(runtime, name_, variables).render(block_);
  }

 private:
  std::string name_;
  Block block_;
};

}  // namespace

std::shared_ptr<const Template> Template::parse(std::string_view source, const std::string& name) {
  return std::make_shared<const ParsedTemplate>(source, name);
}

}  // namespace carat::jinja
