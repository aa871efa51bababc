// Bytes of a connection -> requests, one after another. Boost.Beast does the parsing; limits and what it
// leaves open (targets, request ids) are here.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http.h"

namespace carat {

class HttpParser {
 public:
  struct Limits {
    std::size_t header_bytes = 64 << 10, body_bytes = 32 << 20;
  };
  explicit HttpParser(Limits limits);
  ~HttpParser();
  HttpParser(const HttpParser&) = delete;
  HttpParser& operator=(const HttpParser&) = delete;

  void feed(std::string_view bytes);
  /// Bytes of requests that no request has used yet.
  std::size_t buffered() const { return input_.size(); }

  enum class State {
    head,    // its end hasn't come
    body,    // the head is there, the body isn't
    done,    // next() goes on
    failed,  // nothing more can be read from this connection
  };
  /// Goes on with what was fed. Stops once between head and body.
  State parse();
  /// Forgets the request that is done.
  void next();

  /// Gives the connection up: parse() says `failed` from now on.
  State fail_with(int status, std::string message);

  /// Of a request whose head is there, or of what failed as far as it was read.
  const HttpRequest& head() const { return *request_; }
  bool keep_alive() const;
  bool expects_continue() const;
  bool is_http_1_1() const;

  /// Of a request that is done; once.
  std::shared_ptr<const HttpRequest> take();

  /// Why it failed: a status from 400 to 505 and a sentence.
  int failed_status() const { return failed_status_; }
  const std::string& failure() const { return failure_; }

 private:
  struct Beast;

  State read_head();
  void skip_line_ends();

  const Limits limits_;
  std::string input_;
  std::unique_ptr<Beast> beast_;
  std::shared_ptr<HttpRequest> request_;  // once its head is there
  int failed_status_ = 0;
  std::string failure_;
};

}  // namespace carat
