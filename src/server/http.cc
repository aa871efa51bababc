#include "server/http.h"

#include <algorithm>

namespace carat {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view a, std::string_view b) { return std::ranges::equal(a, b, {}, lower, lower); }

}  // namespace

std::string_view HttpRequest::header(std::string_view name) const {
  const auto found =
      std::ranges::find_if(headers, [&](const HttpHeader& h) { return same_name(h.name, name); });
  return found == headers.end() ? std::string_view() : std::string_view(found->value);
}

}  // namespace carat
