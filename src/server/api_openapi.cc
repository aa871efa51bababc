#include "server/api_routes.h"

namespace carat {

std::string openapi_json() { return "{}"; }

}  // namespace carat
