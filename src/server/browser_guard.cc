#include "server/browser_guard.h"

#include <algorithm>

#include "base/ascii.h"

namespace carat {
namespace {

/// Of "host", "host:8080" or "[::1]:8080".
std::string_view without_port(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_address(std::string_view host) {
  return host.starts_with('[') || host.find_first_not_of("0123456789.") == host.npos;
}

}  // namespace

bool is_loopback(std::string_view address) {
  return address == "localhost" || address == "::1" || address.starts_with("127.");
}

std::optional<std::string> BrowserGuard::objection(const HttpRequest& request) const {
  if (is_of_foreign_page(request))
    return "a web page of another origin made this request; --cors-origins says which may";
  if (!is_own_name(request.header("host")))
    return "this server knows no name \"" + std::string(without_port(request.header("host"))) +
           "\" of itself; --allowed-hosts gives it names";
  return std::nullopt;
}

/// Browsers say where a request comes from in Sec-Fetch-Site, but only to https and this machine (W3C Fetch
/// Metadata); elsewhere Origin tells, which they send with all but plain GETs. Programs send neither.
bool BrowserGuard::is_of_foreign_page(const HttpRequest& request) const {
  const std::string_view site = request.header("sec-fetch-site"), origin = request.header("origin");
  if (cors_.allows(origin)) return false;
  if (!site.empty()) return site != "same-origin" && site != "none";
  if (origin.empty()) return false;
  const std::size_t scheme = origin.find("://");
  return scheme == origin.npos || !equal_ignoring_case(origin.substr(scheme + 3), request.header("host"));
}

/// A page elsewhere can have its own name lead to this machine (DNS rebinding), and is no foreign page then.
/// It can't do so with an address.
bool BrowserGuard::is_own_name(std::string_view host) const {
  if (!names_ || host.empty()) return true;
  const std::string name = ascii_lower(without_port(host));
  return is_address(name) || name == "localhost" || name.ends_with(".localhost") ||
         std::ranges::any_of(*names_, [&](const std::string& own) { return equal_ignoring_case(own, name); });
}

}  // namespace carat
