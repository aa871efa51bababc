#include "server/auth.h"

#include <algorithm>

#include "base/ascii.h"
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

/// What follows "SCHEME " in a header Authorization; empty when it is of another scheme.
std::string_view credentials(std::string_view authorization, std::string_view scheme) {
  if (authorization.size() <= scheme.size() || authorization[scheme.size()] != ' ') return {};
  if (!equal_ignoring_case(authorization.substr(0, scheme.size()), scheme)) return {};
  return trimmed(authorization.substr(scheme.size()));
}

/// The bytes up to the first that is not of the alphabet of base64.
std::string decode_base64(std::string_view text) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  unsigned bits = 0, count = 0;
  for (const char c : text) {
    const std::size_t value = kAlphabet.find(c);
    if (value == kAlphabet.npos) break;
    bits = (bits << 6 | static_cast<unsigned>(value)) & 0xffffu;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count & 0xffu);
    }
  }
  return bytes;
}

/// The password of basic authentication. Browsers send it by themselves, and over plain http nothing tells a
/// GET that a page elsewhere made them send: it doesn't count for the one that has the model work.
std::string password(const HttpRequest& request) {
  if (request.path == "/generate") return {};
  const std::string pair = decode_base64(credentials(request.header("authorization"), "basic"));
  const std::size_t colon = pair.find(':');
  return colon == pair.npos ? std::string() : pair.substr(colon + 1);
}

}  // namespace

bool ApiKeys::allow(const HttpRequest& request) const {
  if (!required()) return true;
  bool allowed = false;
  const std::string basic = password(request);
  for (const std::string_view given : {credentials(request.header("authorization"), "bearer"),
                                       request.header("x-api-key"), std::string_view(basic)}) {
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
