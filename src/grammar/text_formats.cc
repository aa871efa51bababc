#include "grammar/text_formats.h"

#include <map>

namespace carat::grammar {

std::optional<std::string> pattern_of_format(std::string_view format) {
  const std::string year = "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])";
  const std::string leap_year =
      "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
  const std::string date = "(?:" + year + "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])" +
                           "|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
                           leap_year + "-02-29)";
  const std::string hour = "(?:[01][0-9]|2[0-3])";
  const std::string time = hour + ":[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?(?:Z|[+-]" + hour + ":[0-5][0-9])";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,30}[A-Za-z0-9])?";
  const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  const std::map<std::string_view, std::string> patterns = {
      {"date", date},
      {"time", time},
      {"date-time", date + "T" + time},
      {"uuid", "[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"},
      {"email", "[A-Za-z0-9_%+-]+(?:\\.[A-Za-z0-9_%+-]+)*@" + label + "(?:\\." + label + ")+"},
      {"hostname", label + "(?:\\." + label + "){0,5}"},
      {"ipv4", byte + "(?:\\." + byte + "){3}"},
      {"uri",
       "[A-Za-z][A-Za-z0-9+.-]*:(?://" + label + "(?:\\." + label +
           ")*(?::[0-9]{1,4})?)?(?:/[A-Za-z0-9._~-]*)*(?:\\?[A-Za-z0-9._~=&-]*)?(?:#[A-Za-z0-9._~-]*)?"}};
  const auto found = patterns.find(format);
  if (found == patterns.end()) return std::nullopt;
  return '^' + found->second + '$';
}

}  // namespace carat::grammar
