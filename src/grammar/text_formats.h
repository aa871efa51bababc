// Values of "format" as regular expressions. Used by json_schema.cc.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace carat::grammar {

/// Of date, time, date-time, uuid, email, hostname, ipv4, uri; nullopt for others. Each describes a part of
/// what RFC 3339 and the others allow, and nothing else.
std::optional<std::string> pattern_of_format(std::string_view format);

}  // namespace carat::grammar
