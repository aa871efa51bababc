// Every endpoint of the model's APIs, for the server to put behind its own keys, limits and metrics.
#pragma once
#include <memory>
#include <string>

#include "server/api_model.h"
#include "server/http_router.h"

namespace carat {

/// The routes may be called from any number of threads as long as `model->post` works.
void add_api_routes(HttpRouter& router, const std::shared_ptr<const ServedModel>& model);

/// The document that describes them, OpenAPI 3.1. What is always refused is left out.
std::string openapi_json(const ServedModel& model);

}  // namespace carat
