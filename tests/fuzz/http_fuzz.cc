// Any bytes as what a client sends on one connection: the input in pieces, every request taken. The requests
// that come out must not depend on how the bytes were cut; when an error is noticed may.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "server/http_parser.h"
#include "server/http_wire.h"

namespace carat {
namespace {

constexpr HttpParser::Limits kLimits = {.header_bytes = 2048, .body_bytes = 4096};

/// The requests of a connection, and the status of what is none.
struct Outcome {
  std::vector<std::string> requests;
  int failed_status = 0;
};

Outcome parse_all(std::string_view bytes, std::size_t piece) {
  HttpParser parser(kLimits);
  Outcome outcome;
  while (!bytes.empty()) {
    parser.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (auto state = parser.parse(); state != HttpParser::State::head; state = parser.parse()) {
      if (state == HttpParser::State::body && parser.parse() == state) break;
      if (parser.parse() == HttpParser::State::failed) {
        outcome.failed_status = parser.failed_status();
        CHECK(outcome.failed_status >= 400 && outcome.failed_status <= 505);
        return outcome;
      }
      if (parser.parse() != HttpParser::State::done) continue;
      const auto request = parser.take();
      CHECK(request->body.size() <= kLimits.body_bytes);
      outcome.requests.push_back(request->method + " " + request->path + "?" + request->query + "\n" +
                                 request->body);
      parser.next();
    }
  }
  return outcome;
}

/// Whatever a header is set to, it stays one header.
void check_reply_head(std::string_view value) {
  HttpResponse response;
  response.headers.push_back({"x-value", std::string(value)});
  const std::string head = reply_head(response, {.keep_alive = true, .length = 0});
  CHECK(head.find("\r\n\r\n") == head.size() - 4);
}

}  // namespace
}  // namespace carat

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const carat::Outcome whole = carat::parse_all(input, input.size());
  const carat::Outcome cut = carat::parse_all(input, 7);
  CHECK(whole.requests == cut.requests);
  carat::check_reply_head(input);
  return 0;
}
