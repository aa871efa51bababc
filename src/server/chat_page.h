// The page at `/`: HTML, styles and script in one, from src/server/page (see cmake/page.cmake). It talks to
// the same endpoints as everybody else.
#pragma once
#include <string_view>

namespace carat {

std::string_view chat_page();

/// What the page may do: run its own script, ask this server, and nothing else.
inline constexpr std::string_view kChatPagePolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace carat
