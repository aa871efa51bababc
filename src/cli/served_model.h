// A checkpoint with all that the routes of the API have to know of it: for `carat serve`, and for `carat
// batch`, which answers its lines by the same routes.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "api/engine_setup.h"
#include "carat/request.h"
#include "server/api_model.h"

namespace carat {

/// `devices`: one engine on each; empty: one on setup.device.
/// `defaults`: how to draw where a request doesn't say. The model's one name is `model`; `metrics` and `post`
/// are left to the caller. Throws Error as load_model() and make_engine() do.
std::shared_ptr<ServedModel> load_served_model(const std::string& model, const EngineSetup& setup,
                                               const std::vector<std::string>& devices,
                                               const ReplyOptions& defaults, const WarningSink& warn,
                                               const LoadProgress& progress);

}  // namespace carat
