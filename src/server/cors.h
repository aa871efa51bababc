// Which web pages of other origins may call the server: by default none.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "server/http.h"

namespace carat {

class Cors {
 public:
  /// Such as "https://chat.example.org"; "*" for all.
  explicit Cors(std::vector<std::string> origins = {}) : origins_(std::move(origins)) {}

  /// The answer to a browser that asks before it sends a request; none when this is no such question or its
  /// origin isn't allowed.
  std::optional<HttpResponse> answer_preflight(const HttpRequest& request) const;
  /// Lets the page that sent `request` read the reply, when its origin is allowed.
  void complete(const HttpRequest& request, HttpResponse& reply) const;
  bool allows(std::string_view origin) const;

 private:
  std::vector<std::string> origins_;
};

}  // namespace carat
