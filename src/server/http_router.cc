#include "server/http_router.h"

#include <algorithm>
#include <utility>

namespace carat {
namespace {

bool matches_below(std::string_view pattern, std::string_view path) {
  if (!pattern.ends_with("/*")) return false;
  pattern.remove_suffix(1);
  return path.size() > pattern.size() && path.starts_with(pattern);
}

}  // namespace

void HttpRouter::add(std::string method, std::string pattern, HttpRoute route) {
  entries_.push_back({std::move(method), std::move(pattern), std::move(route)});
}

HttpRouter::Match HttpRouter::find(std::string_view method, std::string_view path) const {
  const bool whole = std::ranges::any_of(entries_, [&](const Entry& e) { return e.pattern == path; });
  Match match;
  std::vector<std::string> methods;
  for (const Entry& entry : entries_) {
    if (whole ? entry.pattern != path : !matches_below(entry.pattern, path)) continue;
    methods.push_back(entry.method);
    const bool answers = entry.method == method || (entry.method == "GET" && method == "HEAD");
    if (answers && !match.route) match.route = &entry.route;
  }
  if (std::ranges::count(methods, "GET") > 0) methods.emplace_back("HEAD");
  if (!methods.empty()) methods.emplace_back("OPTIONS");
  for (const std::string& m : methods) match.allow += (match.allow.empty() ? "" : ", ") + m;
  return match;
}

}  // namespace carat
