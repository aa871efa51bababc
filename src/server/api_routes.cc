#include "server/api_routes.h"

#include <functional>
#include <utility>

#include "base/ascii.h"
#include "server/chat_prompt.h"
#include "server/chat_reply.h"
#include "server/completions_reply.h"
#include "server/http_error.h"
#include "server/messages_reply.h"
#include "server/messages_request.h"
#include "server/models_reply.h"
#include "server/reply_plain.h"
#include "server/reply_pump.h"
#include "server/responses_reply.h"
#include "server/tokenize_reply.h"

namespace carat {
namespace {

using Exchange = std::shared_ptr<HttpExchange>;
using Model = std::shared_ptr<const ServedModel>;

/// Takes a missing type for JSON, as small programs leave it out.
void require_json(const HttpRequest& request) {
  const std::string_view sent = request.header("Content-Type");
  const std::string type = ascii_lower(sent.substr(0, sent.find_first_of("; ")));
  if (type.empty() || type == "application/json" || type.ends_with("+json")) return;
  throw ApiError(415, "", "unsupported_media_type",
                 "the body is of type " + in_quotes(type) + ", send \"Content-Type: application/json\"");
}

/// A route that may throw.
HttpRoute guarded(std::function<void(const HttpRequest&, const Exchange&)> serve) {
  return [serve = std::move(serve)](const std::shared_ptr<const HttpRequest>& request,
                                    const Exchange& exchange) {
    try {
      serve(*request, exchange);
    } catch (...) {
      const ApiError error = current_api_error();
      const bool is_openai = error_shape(request->path) == ErrorShape::openai;
      exchange->respond(
          to_response(error, is_openai ? openai_error_json(error) : anthropic_error_json(error)));
    }
  };
}

using Serve = std::function<void(const Model&, const ApiFields&, const Exchange&)>;

/// A route whose body is a JSON object.
HttpRoute with_body(const Model& model, Serve serve) {
  return guarded([model, serve = std::move(serve)](const HttpRequest& request, const Exchange& exchange) {
    require_json(request);
    serve(model, ApiFields(parse_body(request.body, model->origin()), ""), exchange);
  });
}

ReplyReading chat_reading(const ChatRequest& request, ChatRun& run, const ServedModel& model) {
  return {.tokenizer = model.tokenizer,
          .output = std::move(run.output),
          .is_chat = true,
          .parallel_calls = request.parallel_tool_calls,
          .skip_special = true};
}

/// Runs a chat, whichever API it came by. `make_sink` gets the prompt.
template <class MakeSink>
void serve_chat(const Model& model, const ChatRequest& request, const Exchange& exchange,
                const MakeSink& make_sink) {
  ChatRun run = make_chat_run(request, *model);
  std::unique_ptr<ReplySink> sink = make_sink(run.request.prompt);
  ReplyReading reading = chat_reading(request, run, *model);
  std::vector<ReplyOrder> orders;
  orders.push_back({std::move(run.request), std::move(reading)});
  answer(model, std::move(orders), std::move(sink), *exchange);
}

void serve_chat_completions(const Model& model, const ApiFields& body, const Exchange& exchange) {
  const ChatRequest request = parse_chat_request(body, *model);
  serve_chat(model, request, exchange, [&](const std::vector<int32_t>& prompt) {
    return make_chat_sink(request, prompt, model, exchange);
  });
}

void serve_responses(const Model& model, const ApiFields& body, const Exchange& exchange) {
  const ResponsesRequest request = parse_responses_request(body, *model);
  serve_chat(model, request.chat, exchange,
             [&](const std::vector<int32_t>&) { return make_responses_sink(request, model, exchange); });
}

void serve_messages(const Model& model, const ApiFields& body, const Exchange& exchange) {
  const ChatRequest request = parse_messages_request(body, *model, /*counts_only=*/false);
  serve_chat(model, request, exchange, [&](const std::vector<int32_t>& prompt) {
    return make_messages_sink(request, static_cast<int>(prompt.size()), *model, exchange);
  });
}

void serve_count_tokens(const Model& model, const ApiFields& body, const Exchange& exchange) {
  const ChatRequest request = parse_messages_request(body, *model, /*counts_only=*/true);
  JsonText json;
  json.object([&] { json.field("input_tokens", make_chat_prompt(request, *model).ids.size()); });
  exchange->respond({.body = json.take()});
}

ReplyOrder plain_order(const ReplyParameters& options, std::vector<int32_t> prompt,
                       const ServedModel& model) {
  return {to_request(options, std::move(prompt), "prompt", model),
          {.tokenizer = model.tokenizer,
           .output = {.tool_calls = false, .stop_strings = options.stop},
           .is_chat = false,
           .parallel_calls = true,
           .skip_special = options.skip_special_tokens}};
}

void serve_completions(const Model& model, const ApiFields& body, const Exchange& exchange) {
  CompletionsRequest request = parse_completions_request(body, *model);
  std::vector<ReplyOrder> orders;
  for (const CompletionPrompt& prompt : request.prompts)
    orders.push_back(plain_order(request.options, prompt.ids, *model));
  auto sink = make_completions_sink(std::move(request), model, exchange);
  answer(model, std::move(orders), std::move(sink), *exchange);
}

/// GET /generate?prompt=...&max_tokens=...: text and nothing else, for a browser's address bar.
void serve_generate(const Model& model, const HttpRequest& request, const Exchange& exchange) {
  const ApiFields query(parse_query(request.query), "");
  const ReplyParameters options = parse_plain_options(query, *model);
  std::vector<ReplyOrder> orders;
  orders.push_back(plain_order(options, encode_raw(query.required_text("prompt"), query, *model), *model));
  answer(model, std::move(orders), make_plain_sink(exchange), *exchange);
}

void refuse_embeddings(const Model&, const ApiFields&, const Exchange&) {
  bad_request("model",
              "this is a language model: it was not trained to give embeddings, and its hidden states "
              "make poor ones; use a model made for them");
}

/// A route that needs no engine.
template <class Make>
Serve respond_with(Make make) {
  return [make](const Model& model, const ApiFields& body, const Exchange& exchange) {
    std::string reply = make(body, *model);
    body.ignore_fields_of_replies();
    body.refuse_rest(model->refuses_unknown_fields);
    exchange->respond({.body = std::move(reply)});
  };
}

}  // namespace

void add_api_routes(HttpRouter& router, const std::shared_ptr<const ServedModel>& model) {
  const auto post = [&](const char* path, Serve serve) {
    router.add("POST", path, with_body(model, std::move(serve)));
  };
  const auto get = [&](const char* path, std::function<void(const HttpRequest&, const Exchange&)> serve) {
    router.add("GET", path, guarded(std::move(serve)));
  };
  post("/v1/chat/completions", serve_chat_completions);
  post("/v1/completions", serve_completions);
  post("/v1/responses", serve_responses);
  post("/v1/messages", serve_messages);
  post("/v1/messages/count_tokens", serve_count_tokens);
  post("/v1/embeddings", refuse_embeddings);
  post("/tokenize", respond_with(tokenize_json));
  post("/detokenize", respond_with(detokenize_json));
  post("/apply-template", respond_with(apply_template_json));
  get("/v1/models", [model](const HttpRequest&, const Exchange& exchange) {
    exchange->respond({.body = models_json(*model)});
  });
  get("/v1/models/*", [model](const HttpRequest& request, const Exchange& exchange) {
    constexpr std::string_view kFolder = "/v1/models/";
    exchange->respond({.body = model_json(request.path.substr(kFolder.size()), *model)});
  });
  get("/generate", [model](const HttpRequest& request, const Exchange& exchange) {
    serve_generate(model, request, exchange);
  });
  get("/openapi.json", [model](const HttpRequest&, const Exchange& exchange) {
    exchange->respond({.body = openapi_json(*model)});
  });
}

}  // namespace carat
