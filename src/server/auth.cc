#include "server/auth.h"

#include <algorithm>

#include "base/error.h"

namespace carat {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlank);
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

/// Looks at every byte of both, whatever they are.
bool same(std::string_view given, std::string_view key) {
  std::size_t difference = given.size() ^ key.size();
  for (std::size_t i = 0; i < std::max(given.size(), key.size()); ++i) {
    const unsigned a = i < given.size() ? static_cast<unsigned char>(given[i]) : 0;
    const unsigned b = i < key.size() ? static_cast<unsigned char>(key[i]) : 0;
    difference |= a ^ b;
  }
  return difference == 0;
}

std::string_view bearer(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (authorization.size() < kScheme.size()) return {};
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  if (!std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, {}, lower)) return {};
  return trimmed(authorization.substr(kScheme.size()));
}

}  // namespace

bool ApiKeys::allow(const HttpRequest& request) const {
  if (!required()) return true;
  bool allowed = false;
  for (const std::string_view given :
       {bearer(request.header("authorization")), request.header("x-api-key")}) {
    for (const std::string& key : keys_) allowed |= same(given, key);
  }
  return allowed;
}

std::vector<std::string> parse_api_keys(std::string_view text, const std::string& source) {
  std::vector<std::string> keys;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view key = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (key.empty() || key.starts_with('#')) continue;
    if (!std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; }))
      fail(ErrorKind::invalid_argument, source, ": API key ", keys.size() + 1,
           " has blanks or characters that are not ASCII");
    keys.emplace_back(key);
  }
  if (keys.empty()) fail(ErrorKind::invalid_argument, source, ": there is no API key");
  return keys;
}

}  // namespace carat
