// /v1/models: the one model that is served, under each of its names.
#pragma once
#include <string>

#include "server/api_model.h"

namespace carat {

std::string models_json(const ServedModel& model);
/// Throws ApiError{404} for a name that is not ours.
std::string model_json(const std::string& name, const ServedModel& model);

}  // namespace carat
