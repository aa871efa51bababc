// `carat batch`: a file of requests through the routes of the server's API, without a network, as many at
// once as the engine holds. The input is read as the engine gets through it, so that memory doesn't grow with
// the file; each reply is written when it ends.
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/batch_request.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/reply_file.h"
#include "cli/served_model.h"
#include "cli/signals.h"
#include "cli/streams.h"
#include "server/api_routes.h"
#include "server/http_error.h"
#include "server/workers.h"

namespace carat {
namespace {

volatile std::sig_atomic_t interrupted_by = 0;

/// The first signal ends the batch with whole lines, the second one the program.
void stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    catch_first(signal, [](int number) { interrupted_by = number; });
}

/// A line of the input and, in the end, the response to it.
struct Answer {
  uint64_t index;
  std::size_t line_bytes;
  BatchRequest request;
  HttpResponse response = {};
};

/// Answers on their way from the threads that finish them.
class Answers {
 public:
  void add(Answer answer) {
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
    changed_.notify_one();
  }
  /// Waits for some, but not long.
  std::vector<Answer> take() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return !answers_.empty(); });
    return std::exchange(answers_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Answer> answers_;
};

/// Where a route responds to a line. No line asks for a stream.
class LineExchange final : public HttpExchange {
 public:
  LineExchange(Answer answer, std::shared_ptr<Answers> answers)
      : answer_(std::move(answer)), answers_(std::move(answers)) {}

  ~LineExchange() override {
    if (answers_) respond(error_response({.status = 500, .message = "no reply came"}));
  }

  /// The first response counts.
  void respond(HttpResponse response) override {
    if (const auto answers = std::exchange(answers_, nullptr)) {
      answer_.response = std::move(response);
      answers->add(std::move(answer_));
    }
  }
  void begin_stream(HttpResponse) override {}
  void write(std::string) override {}
  void end() override {}
  void abort() override {}
  std::size_t unsent_bytes() const override { return 0; }
  void on_disconnect(std::function<void()>) override {}

 private:
  Answer answer_;
  std::shared_ptr<Answers> answers_;  // until the response
};

/// The lines of the input and where they are.
class Input {
 public:
  explicit Input(const std::string& path) : name_(path), file_(path, std::ios::binary) {
    std::error_code error;
    if (!file_ || std::filesystem::is_directory(path, error))
      fail(ErrorKind::not_found, path, ": can't be read");
    const auto size = std::filesystem::file_size(path, error);
    bytes_ = error ? 0 : size;
  }

  /// False at the end.
  bool next(std::string& line, uint64_t& index) {
    if (!std::getline(file_, line)) {
      if (file_.bad()) fail(ErrorKind::unavailable, name_, ": reading failed");
      return false;
    }
    index = lines_++;
    return true;
  }
  uint64_t lines() const { return lines_; }
  /// 0 when unknown.
  uint64_t bytes() const { return bytes_; }

 private:
  std::string name_;
  std::ifstream file_;
  uint64_t lines_ = 0, bytes_ = 0;
};

class Batch {
 public:
  explicit Batch(const BatchOptions& options)
      : options_(options), input_(options.input), output_(options.output), model_(load(options)) {
    if (options.generation.think && !model_->chat_template->can_think())
      fail(ErrorKind::invalid_argument, "--think: this model has no thinking");
    defaults_ = {.max_tokens = options.generation.max_tokens,
                 .seed = options.generation.seed,
                 .think = options.generation.think,
                 .chats = !model_->chat_template->continues_text() && !options.raw};
    model_->post = [this](std::function<void()> work) { workers_.post(std::move(work)); };
    add_api_routes(router_, model_);
    // Enough for the engine to find the next request whenever a reply ends.
    most_in_flight_ = 2 * model_->engine->max_sequences();
    before_ = output_.replies();
    failed_before_ = output_.failed();
  }
  ~Batch() {
    workers_.stop();
    model_->engine.reset();  // what still runs holds the model, and may still post
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void run() {
    Progress progress("batch", options_.quiet);
    bool more = true;
    while (interrupted_by == 0) {
      while (more && in_flight_ < most_in_flight_ && interrupted_by == 0) more = start_next();
      if (in_flight_ == 0) break;
      for (const Answer& answer : answers_->take()) write(answer);
      output_.sync_if_due();
      if (input_.bytes() > 0)
        progress.update(static_cast<double>(done_bytes_) / static_cast<double>(input_.bytes()));
    }
    output_.sync();
    if (!more) output_.check_end(input_.lines());
  }

  int report() const {
    const uint64_t failed = output_.failed(), answered = output_.replies() - failed;
    const uint64_t answered_before = before_ - failed_before_;
    if (!options_.quiet) {
      std::fprintf(stderr, "%llu requests answered",
                   static_cast<unsigned long long>(answered - answered_before));
      if (before_ > 0)
        std::fprintf(stderr, ", %llu before", static_cast<unsigned long long>(answered_before));
      std::fprintf(stderr, "; %lld tokens read (%lld cached), %lld written\n",
                   static_cast<long long>(prompt_tokens_), static_cast<long long>(cached_tokens_),
                   static_cast<long long>(reply_tokens_));
    }
    if (interrupted_by != 0) {
      print_message("interrupted; the same command goes on from here");
      return 128 + interrupted_by;  // as a shell says of a program ended by a signal
    }
    if (failed == 0) return 0;
    print_message(std::to_string(failed) + (failed == 1 ? " request" : " requests") + " failed" +
                  (failed_before_ > 0 ? ", " + std::to_string(failed_before_) + " of them before" : "") +
                  "; see \"error\" in " + options_.output);
    return 1;
  }

 private:
  static std::shared_ptr<ServedModel> load(const BatchOptions& options) {
    EngineSetup setup = options.engine;
    setup.max_waiting = kMostWaiting;
    auto model = load_served_model(options.model, setup, {}, options.generation,
                                   warning_printer(options.quiet), loading_bar(options.quiet));
    model->accepts_any_name = true;
    model->refuses_unknown_fields = true;  // nobody watches a batch
    return model;
  }

  /// False at the end of the input.
  bool start_next() {
    std::string line;
    uint64_t index = 0;
    if (!input_.next(line, index)) return false;
    if (!start(line, index)) done_bytes_ += line.size() + 1;
    return true;
  }

  /// Whether the reply to a line is still to come.
  bool start(const std::string& line, uint64_t index) {
    const uint32_t line_hash = hash_of_line(line);
    if (output_.has(index, line_hash)) return false;
    if (line.find_first_not_of(" \t\r") == line.npos) return false;
    BatchRequest request = parse_batch_request(line, line_hash, defaults_);
    if (!request.error.empty()) {
      output_.append(batch_error_line(index, request), {index, line_hash, /*failed=*/true});
      return false;
    }
    auto http = std::make_shared<HttpRequest>();
    http->method = "POST";
    http->path = request.path;
    http->body = std::move(request.body);
    const HttpRoute& route = *router_.find(http->method, http->path).route;
    Answer answer{index, line.size() + 1, std::move(request)};
    route(std::move(http), std::make_shared<LineExchange>(std::move(answer), answers_));
    ++in_flight_;
    return true;
  }

  void write(const Answer& answer) {
    --in_flight_;
    done_bytes_ += answer.line_bytes;
    if (answer.response.status >= 500) {
      if (const std::string device = model_->engine->failure(); !device.empty())
        fail(ErrorKind::device, device);
    }
    const BatchReply reply = make_batch_reply(answer.index, answer.request, answer.response);
    prompt_tokens_ += reply.usage.prompt_tokens;
    cached_tokens_ += reply.usage.cached_tokens;
    reply_tokens_ += reply.usage.reply_tokens;
    output_.append(reply.line, {answer.index, answer.request.line_hash, answer.response.status != 200});
  }

  static constexpr int kMostWaiting = 1 << 20;  // each line may ask for several replies

  BatchOptions options_;
  Input input_;
  ReplyFile output_;
  BatchDefaults defaults_;
  std::shared_ptr<Answers> answers_ = std::make_shared<Answers>();
  Workers workers_{2};
  std::shared_ptr<ServedModel> model_;
  HttpRouter router_;
  int in_flight_ = 0, most_in_flight_ = 0;
  uint64_t before_ = 0, failed_before_ = 0;
  uint64_t done_bytes_ = 0;  // of the input: its lines that need nothing more
  int64_t prompt_tokens_ = 0, cached_tokens_ = 0, reply_tokens_ = 0;
};

}  // namespace

int batch_command(const BatchOptions& options) {
  Batch batch(options);
  stop_on_signals();
  batch.run();
  return batch.report();
}

}  // namespace carat
