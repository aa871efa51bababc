// API keys: who may use the server.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "server/http.h"

namespace carat {

class ApiKeys {
 public:
  /// Without keys everybody may.
  explicit ApiKeys(std::vector<std::string> keys = {}) : keys_(std::move(keys)) {}

  bool required() const { return !keys_.empty(); }
  /// Whether `request` carries one of the keys, as "Authorization: Bearer KEY", "x-api-key: KEY", or as the
  /// password of HTTP's basic authentication (RFC 7617), which browsers offer their users (and then
  /// not for /generate). How long that takes says nothing about the keys but their number and the longest
  /// one's length.
  bool allow(const HttpRequest& request) const;

 private:
  std::vector<std::string> keys_;
};

/// One key per line; blank lines and lines that begin with # don't count. Throws Error{invalid_argument},
/// naming `source`, when there is none, or one with bytes that no header can carry.
std::vector<std::string> parse_api_keys(std::string_view text, const std::string& source);

}  // namespace carat
