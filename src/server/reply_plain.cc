#include "server/reply_plain.h"

#include <charconv>
#include <utility>

#include "server/percent.h"
#include "text/unicode.h"

namespace carat {
namespace {

using jinja::Value;

std::string decode_percent(std::string_view text) {
  std::string decoded;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (const int byte = percent_byte(text.substr(at)); byte >= 0) {
      decoded += static_cast<char>(byte);
      at += 2;
    } else {
      decoded += text[at] == '+' ? ' ' : text[at];
    }
  }
  return decoded;
}

Value value_of(std::string_view name, const std::string& text) {
  const char* const end = text.data() + text.size();
  int64_t integer = 0;
  double number = 0;
  if (name != "prompt" && name != "stop") {
    if (text == "true" || text == "false") return Value::boolean(text == "true");
    if (const auto read = std::from_chars(text.data(), end, integer);
        read.ec == std::errc{} && read.ptr == end)
      return Value::integer(integer);
    if (const auto read = std::from_chars(text.data(), end, number);
        read.ec == std::errc{} && read.ptr == end)
      return Value::number(number);
  }
  return Value::text(text, Origin::user);
}

class PlainText final : public ReplySink {
 public:
  explicit PlainText(std::shared_ptr<HttpExchange> exchange) : exchange_(std::move(exchange)) {}

  void begin() override {
    exchange_->begin_stream({.body = {},
                             .content_type = "text/plain; charset=utf-8",
                             .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}},
                             .ping = {}});
  }
  void add(ReplyDelta delta) override { unsent_ += delta.content; }
  void flush() override {
    if (!unsent_.empty()) exchange_->write(std::exchange(unsent_, {}));
  }
  void finish() override {
    flush();
    exchange_->end();
  }
  void fail(const ApiError&) override {
    flush();
    exchange_->abort();
  }

 private:
  std::shared_ptr<HttpExchange> exchange_;
  std::string unsent_;
};

}  // namespace

Value parse_query(std::string_view query) {
  jinja::Map parameters;
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const std::string name = decode_percent(pair.substr(0, pair.find('=')));
    const std::string text =
        pair.find('=') == pair.npos ? std::string() : decode_percent(pair.substr(pair.find('=') + 1));
    if (!is_valid_utf8(name) || !is_valid_utf8(text)) bad_request("", "the query is not UTF-8");
    if (!name.empty()) parameters.set(name, value_of(name, text));
  }
  return Value::map(std::move(parameters));
}

ReplyParameters parse_plain_options(const ApiFields& query, const ServedModel& model) {
  constexpr int kDefaultTokens = 128;
  model.require_name(query.text("model").value_or(""));
  ReplyParameters options = parse_reply_options(query, model);
  parse_stop(query, "stop", options);
  options.skip_special_tokens = query.boolean("skip_special_tokens").value_or(true);
  options.max_tokens = parse_max_tokens(query, {"max_tokens"}).value_or(kDefaultTokens);
  query.required_text("prompt");
  query.boolean("add_special_tokens");
  query.ignore({"stream"});  // it always is one
  query.refuse_rest(model.refuses_unknown_fields);
  return options;
}

std::unique_ptr<ReplySink> make_plain_sink(std::shared_ptr<HttpExchange> exchange) {
  return std::make_unique<PlainText>(std::move(exchange));
}

}  // namespace carat
