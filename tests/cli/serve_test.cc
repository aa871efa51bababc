// The end of `carat serve`; what it serves is tested with src/server.
#include "cli/program.h"
#include "cli/terminal.h"

namespace carat {
namespace {

/// A server on a free port.
class Serving {
 public:
  /// Waits until the log has `line`.
  explicit Serving(std::string_view line) : program_({"serve", kDemoModel, "--port", "0"}) {
    EXPECT_TRUE(comes_true([&] { return program_.errors().find(line) != std::string::npos; }))
        << program_.errors();
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

TEST(Serve, NoBarStaysOnTheTerminalWhenASignalEndsIt) {
  Terminal terminal({"serve", kDemoModel, "--port", "0"});
  terminal.wait_for("loading [");
  terminal.type("\x03");
  EXPECT_NE(terminal.wait_for("shutting down").rfind("\r\x1b[K"), std::string::npos);
  EXPECT_EQ(terminal.wait(), 0);
  EXPECT_EQ(terminal.rest().find("loading ["), std::string::npos) << terminal.rest();
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
