// The routes of the APIs on the real engine and the demo model, called without a network.
#pragma once
#include <memory>
#include <string>
#include <utility>

#include "cpu/cpu_runner.h"
#include "engine/engine.h"
#include "server/api_routes.h"
#include "server/recorded_exchange.h"
#include "server/workers.h"
#include "support/golden.h"

namespace carat {

inline constexpr int kDemoContext = 512;

inline EngineOptions demo_options() {
  EngineOptions options;
  options.eos_tokens = {1};
  options.max_positions = kDemoContext;
  options.prefix_cache = true;
  return options;
}

/// The demo model with places for 8 replies; `metrics` and `post` are up to whoever serves it.
inline std::shared_ptr<ServedModel> load_demo_model(EngineOptions options = demo_options()) {
  auto model = std::make_shared<ServedModel>();
  const auto directory = test_checkpoint("demo");
  ModelPlan plan = load_test_plan("demo");
  model->vocab = plan.vocab;
  const RunnerOptions limits = size_kv(plan.kv_groups, kDemoContext, 8, 64);
  model->tokenizer = Tokenizer::load(directory / "tokenizer.json");
  model->engine = std::make_shared<EnginePool>(std::make_unique<Engine>(
      make_cpu_runner(std::move(plan), limits, {}), model->tokenizer, std::move(options)));
  model->bos = model->tokenizer->find("<bos>");
  const std::vector<int32_t> eos = {1};
  model->chat_template = ChatTemplate::load(
      directory, model->tokenizer, {model->bos, /*expects_empty_thought=*/false, /*ends_turns=*/false});
  model->grammars = make_grammars(model->tokenizer, eos);
  model->names = {"demo", "alias"};
  model->created = 1'700'000'000;
  model->fingerprint = "fp_test";
  return model;
}

class DemoApi {
 public:
  static constexpr int kContext = kDemoContext;

  explicit DemoApi(EngineOptions options = demo_options()) : model_(load_demo_model(std::move(options))) {
    model_->metrics = &metrics_;
    model_->post = [this](std::function<void()> work) { workers_.post(std::move(work)); };
    add_api_routes(router_, model_);
  }

  static EngineOptions default_options() { return demo_options(); }

  ServedModel& model() { return *model_; }

  std::shared_ptr<RecordedExchange> call(const std::string& method, const std::string& path,
                                         std::string body = "", std::string query = "") const {
    auto request = std::make_shared<HttpRequest>();
    request->method = method;
    request->path = path;
    request->query = std::move(query);
    request->body = std::move(body);
    if (method == "POST") request->headers.push_back({"content-type", "application/json; charset=utf-8"});
    auto exchange = std::make_shared<RecordedExchange>();
    const HttpRouter::Match match = router_.find(method, path);
    if (!match.route) throw std::runtime_error("no route for " + path);
    (*match.route)(request, exchange);
    return exchange;
  }
  std::shared_ptr<RecordedExchange> post(const std::string& path, const nlohmann::json& body) const {
    return call("POST", path, body.dump());
  }

 private:
  Metrics metrics_;
  Workers workers_{2};
  std::shared_ptr<ServedModel> model_;
  HttpRouter router_;
};

}  // namespace carat
