// `carat batch`: a file of requests through the engine, as many at once as it holds. The input is read as the
// engine gets through it, so that memory doesn't grow with the file; each reply is written when it ends.
#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "carat/engine.h"
#include "cli/batch_request.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/reply_file.h"
#include "cli/signals.h"
#include "cli/streams.h"

namespace carat {
namespace {

/// The codes of errors: the request can't be, or it can but its reply failed.
constexpr const char* kWrongRequest = "invalid_request_error";
constexpr const char* kFailedReply = "server_error";

volatile std::sig_atomic_t interrupted_by = 0;

/// The first signal ends the batch with whole lines, the second one the program.
void stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    catch_first(signal, [](int number) { interrupted_by = number; });
}

/// Something has come of one of the replies.
class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    rung_ = true;
    changed_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool rung_ = false;
};

/// The lines of the input and where they are.
class Input {
 public:
  explicit Input(const std::string& path) : name_(path), file_(path, std::ios::binary) {
    std::error_code error;
    if (!file_ || std::filesystem::is_directory(path, error))
      fail(ErrorKind::not_found, path, ": can't be read");
    const auto size = std::filesystem::file_size(path, error);
    bytes_ = error ? 0 : static_cast<double>(size);
  }

  /// False at the end.
  bool next(std::string& line, uint64_t& index) {
    if (!std::getline(file_, line)) {
      if (file_.bad()) fail(ErrorKind::unavailable, name_, ": reading failed");
      return false;
    }
    read_ += static_cast<double>(line.size() + 1);
    index = lines_++;
    return true;
  }
  uint64_t lines() const { return lines_; }
  double fraction() const { return bytes_ > 0 ? read_ / bytes_ : 0; }

 private:
  std::string name_;
  std::ifstream file_;
  uint64_t lines_ = 0;
  double bytes_ = 0, read_ = 0;
};

class Batch {
 public:
  explicit Batch(const BatchOptions& options)
      : options_(options), input_(options.input), output_(options.output), model_(load(options)) {
    options_.generation.notify = [bell = bell_] { bell->ring(); };
    // Enough for the engine to find the next request whenever a reply ends.
    most_in_flight_ = 2 * static_cast<std::size_t>(model_.max_sequences());
    chats_ = model_.is_chat_model() && !options.raw;
    before_ = output_.replies();
    failed_before_ = output_.failed();
  }

  void run() {
    Progress progress("batch", options_.quiet);
    bool more = true;
    while (interrupted_by == 0) {
      while (more && in_flight_.size() < most_in_flight_ && interrupted_by == 0) more = start_next();
      if (in_flight_.empty()) break;
      bell_->wait();
      collect();
      progress.update(input_.fraction());
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
  struct Running {
    uint64_t index;
    BatchRequest request;
    Generation reply;
  };

  static Model load(const BatchOptions& options) {
    ModelOptions how = model_options(options.engine);
    how.progress = loading_bar(options.quiet);
    how.warning = warning_printer(options.quiet);
    return Model::load(options.model, how);
  }

  /// False at the end of the input.
  bool start_next() {
    std::string line;
    uint64_t index = 0;
    if (!input_.next(line, index)) return false;
    if (output_.has(index, hash_of_line(line))) return true;
    if (line.find_first_not_of(" \t\r") == line.npos) return true;
    BatchRequest request = parse_batch_request(line, options_.generation, chats_);
    if (!request.error.empty()) {
      output_.append(batch_error_line(index, request, kWrongRequest, request.error));
      return true;
    }
    try {
      Generation reply = start(request);
      in_flight_.push_back({index, std::move(request), std::move(reply)});
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::invalid_argument && error.kind() != ErrorKind::unsupported) throw;
      output_.append(batch_error_line(index, request, kWrongRequest, error.what()));
    }
    return true;
  }

  Generation start(const BatchRequest& request) const {
    if (request.kind == BatchRequest::Kind::chat) return model_.chat_json(request.text, request.options);
    if (!request.tokens.empty()) return model_.generate(request.tokens, request.options);
    if (request.kind == BatchRequest::Kind::turn)
      return model_.chat({{"user", request.text}}, request.options);
    return model_.complete(request.text, request.options);
  }

  /// Reads what has come, and writes the replies that have ended.
  void collect() {
    for (auto running = in_flight_.begin(); running != in_flight_.end();) {
      Generation& reply = running->reply;
      while (reply.next(std::chrono::milliseconds(0))) {
      }
      if (!reply.finished()) {
        ++running;
        continue;
      }
      write_reply(*running);
      running = in_flight_.erase(running);
    }
  }

  void write_reply(const Running& running) {
    const Completion& reply = running.reply.so_far();
    if (reply.finish == FinishReason::error) {
      if (const std::string device = model_.failure(); !device.empty()) fail(ErrorKind::device, device);
      return output_.append(batch_error_line(running.index, running.request, kFailedReply, reply.error));
    }
    if (reply.finish == FinishReason::cancelled) return;
    prompt_tokens_ += reply.usage.prompt_tokens;
    cached_tokens_ += reply.usage.cached_tokens;
    reply_tokens_ += reply.usage.reply_tokens;
    output_.append(batch_reply_line(running.index, running.request, reply, options_.model));
  }

  BatchOptions options_;
  Input input_;
  ReplyFile output_;
  std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();  // replies may ring it until the engine has ended
  Model model_;
  std::list<Running> in_flight_;
  std::size_t most_in_flight_ = 0;
  bool chats_ = false;  // a text in "prompt" is a turn
  uint64_t before_ = 0, failed_before_ = 0;
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
