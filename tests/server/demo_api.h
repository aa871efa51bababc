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

class DemoApi {
 public:
  static constexpr int kContext = 512;

  explicit DemoApi(EngineOptions options = default_options()) : workers_(2) {
    const auto directory = test_checkpoint("demo");
    ModelPlan plan = load_test_plan("demo");
    const int vocab = plan.vocab;
    const RunnerOptions limits = size_kv(plan.kv_groups, kContext, 8, 64);
    model_->tokenizer = Tokenizer::load(directory / "tokenizer.json");
    model_->engine = std::make_shared<Engine>(make_cpu_runner(std::move(plan), limits, {}), model_->tokenizer,
                                              std::move(options));
    model_->bos = model_->tokenizer->find("<bos>");
    const std::vector<int32_t> eos = {1};
    model_->chat_template = load_serving_template(directory, model_->tokenizer, {model_->bos, false}, eos);
    model_->grammars = make_grammars(model_->tokenizer, eos);
    model_->names = {"demo", "alias"};
    model_->vocab = vocab;
    model_->created = 1'700'000'000;
    model_->fingerprint = "fp_test";
    model_->metrics = &metrics_;
    model_->post = [this](std::function<void()> work) { workers_.post(std::move(work)); };
    add_api_routes(router_, model_);
  }

  static EngineOptions default_options() {
    EngineOptions options;
    options.eos_tokens = {1};
    options.max_positions = kContext;
    options.prefix_cache = true;
    return options;
  }

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
  Workers workers_;
  std::shared_ptr<ServedModel> model_ = std::make_shared<ServedModel>();
  HttpRouter router_;
};

}  // namespace carat
