// The end of `carat serve`; what it serves is tested with src/server.
#include "cli/program.h"
#include "cli/terminal.h"

namespace carat {
namespace {

/// A server on a free port.
class Serving {
 public:
  /// Waits until the log has `line`.
  explicit Serving(std::string_view line, const std::vector<std::string>& more = {})
      : program_(arguments(more)) {
    EXPECT_TRUE(comes_true([&] { return program_.errors().find(line) != std::string::npos; }))
        << program_.errors();
  }
  Finished end(int signal) {
    program_.signal(signal);
    return program_.wait();
  }

 private:
  static std::vector<std::string> arguments(const std::vector<std::string>& more) {
    std::vector<std::string> all{"serve", kDemoModel, "--port", "0"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }

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

TEST(Serve, TakesSeveralDevices) {
  EXPECT_EQ(Serving("serving ", {"--devices", "cpu,ref", "--context", "200"}).end(SIGTERM).code, 0);
  const Finished both = run_program({"serve", kDemoModel, "--device", "cpu", "--devices", "0,1"});
  EXPECT_NE(both.code, 0);
  EXPECT_NE(both.err.find("--devices"), std::string::npos) << both.err;
  const Finished unknown = run_program({"serve", kDemoModel, "--devices", "0,x"});
  EXPECT_NE(unknown.code, 0);
  EXPECT_NE(unknown.err.find("\"x\""), std::string::npos) << unknown.err;
}

TEST(Serve, WarnsWhenTheNetworkMayUseItWithoutAKey) {
  const auto is_warned = [](const std::vector<std::string>& more) {
    return Serving("loading ", more).end(SIGTERM).err.find("warning: whoever can reach") != std::string::npos;
  };
  EXPECT_TRUE(is_warned({"--host", "0.0.0.0"}));
  EXPECT_FALSE(is_warned({"--host", "0.0.0.0", "--api-key", "secret"}));
  EXPECT_FALSE(is_warned({}));
}

}  // namespace
}  // namespace carat
