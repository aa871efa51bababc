#include "server/api_model.h"

#include <algorithm>

#include "server/api_error.h"

namespace carat {

void ServedModel::require_name(const std::string& name) const {
  if (accepts_any_name || name.empty() || std::ranges::find(names, name) != names.end()) return;
  throw ApiError(
      404, "invalid_request_error", "model", "model_not_found",
      "the model " + in_quotes(name) + " does not exist; this server has " + in_quotes(names.front()));
}

}  // namespace carat
