// Replies -> bytes. Used by the connections of http_server.cc.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "server/http.h"

namespace carat {

struct ReplyFraming {
  bool keep_alive = true;
  std::optional<std::size_t> length;  // of the body; none: it comes in chunks, or ends with the connection
  bool chunked = false;
};

/// Status line and headers with the empty line behind them. What could end a header early is left out of its
/// value.
std::string reply_head(const HttpResponse& response, const ReplyFraming& framing);
/// A reply behind which the connection ends.
std::string whole_reply(const HttpResponse& response);
/// One chunk of the chunked coding; nothing for no bytes, which would end the body.
std::string chunk(std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace carat
