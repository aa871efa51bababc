// Every endpoint of the model's APIs, for the server to put behind its own keys, limits and metrics.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "server/api_model.h"
#include "server/http.h"

namespace carat {

struct ApiRoute {
  std::string method;
  std::string path;  // ending in "/*": any path below
  HttpRoute serve;
};

/// The routes may be called from any number of threads as long as `model->post` works.
std::vector<ApiRoute> api_routes(std::shared_ptr<const ServedModel> model);

/// The document that describes them, OpenAPI 3.1.
std::string openapi_json();

}  // namespace carat
