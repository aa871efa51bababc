#include "server/models_reply.h"

#include <algorithm>

#include "server/api_error.h"
#include "server/api_json.h"

namespace carat {
namespace {

void write_model(const std::string& name, const ServedModel& model, JsonText& json) {
  json.object([&] {
    json.field("id", name)
        .field("object", "model")
        .field("created", model.created)
        .field("owned_by", "carat")
        .field("root", model.names.front())
        .field("max_model_len", model.engine->max_context())
        .field("continues_text", model.chat_template->continues_text());
  });
}

}  // namespace

std::string models_json(const ServedModel& model) {
  JsonText json;
  json.object([&] {
    json.field("object", "list").name("data").array([&] {
      for (const std::string& name : model.names) write_model(name, model, json);
    });
  });
  return json.take();
}

std::string model_json(const std::string& name, const ServedModel& model) {
  if (name.empty() || std::ranges::find(model.names, name) == model.names.end())
    throw ApiError(404, "model", "model_not_found", "the model " + in_quotes(name) + " does not exist");
  JsonText json;
  write_model(name, model, json);
  return json.take();
}

}  // namespace carat
