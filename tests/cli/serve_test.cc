// The end of `carat serve`; what it serves is tested with src/server.
#include <chrono>
#include <thread>

#include "cli/program.h"

namespace carat {
namespace {

/// A server on a free port.
class Serving {
 public:
  /// Waits until the log has `line`.
  explicit Serving(std::string_view line) : program_({"serve", kDemoModel, "--port", "0"}) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (program_.errors().find(line) == std::string::npos && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  Finished end(int signal) {
    program_.signal(signal);
    return program_.wait();
  }

 private:
  Program program_;
};

TEST(Serve, ASignalEndsItWhileItLoads) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const Finished finished = Serving("loading ").end(signal);
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_NE(finished.err.find("shutting down"), std::string::npos) << finished.err;
  }
}

TEST(Serve, ASignalEndsItWhileItServes) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const Finished finished = Serving("serving ").end(signal);
    EXPECT_EQ(finished.code, 0) << finished.err;
    EXPECT_NE(finished.err.find("shutting down"), std::string::npos) << finished.err;
  }
}

}  // namespace
}  // namespace carat
