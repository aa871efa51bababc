#include "server/http.h"

#include <algorithm>

#include "base/ascii.h"

namespace carat {

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [&](const HttpHeader& h) { return equal_ignoring_case(h.name, name); });
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

}  // namespace carat
