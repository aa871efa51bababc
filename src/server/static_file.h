// Files that are part of the program, such as a page.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace carat {

/// A GET route for `content`, which is kept as it is and must live as long as the route. Browsers may keep
/// it as long as they ask whether it has changed. `headers` are sent along.
HttpRoute static_file(std::string_view content, std::string content_type,
                      std::vector<HttpHeader> headers = {});

}  // namespace carat
