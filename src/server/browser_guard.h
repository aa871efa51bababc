// A server on one's own machine can be reached by every web page in one's browser. This tells the requests
// that such pages make from those of programs, of its own page, and of pages that are allowed.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/cors.h"
#include "server/http.h"

namespace carat {

class BrowserGuard {
 public:
  /// `names`: what the Host of a request may be beside addresses and localhost; none: anything.
  BrowserGuard(const Cors& cors, std::optional<std::vector<std::string>> names)
      : cors_(cors), names_(std::move(names)) {}

  /// Why `request` is refused; none when it isn't.
  std::optional<std::string> objection(const HttpRequest& request) const;

 private:
  bool is_of_foreign_page(const HttpRequest& request) const;
  bool is_own_name(std::string_view host) const;

  const Cors& cors_;
  const std::optional<std::vector<std::string>> names_;
};

/// Whether only this machine can connect to that address: "127.0.0.1", "::1", "localhost".
bool is_loopback(std::string_view address);

}  // namespace carat
