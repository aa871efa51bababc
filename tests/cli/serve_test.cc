// The end of `carat serve`; what it serves is tested with src/server.
#include "cli/program.h"
#include "cli/terminal.h"

namespace carat {
namespace {

/// A server on a free port.
class Serving {
 public:
  /// Waits until the log has `line`.
  explicit Serving(std::string_view line, const std::vector<std::string>& more = {},
                   std::vector<std::string> environment = {})
      : program_(arguments(more), "", std::move(environment)) {
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
  expect_one_line_error(run_program({"serve", kDemoModel, "--devices", "0,x"}), 2, "\"x\"");
  const Finished before_model = run_program({"serve", "--port", "0", "--devices", "0,1", "/no/such/model"});
  EXPECT_NE(before_model.err.find("loading /no/such/model"), std::string::npos) << before_model.err;
}

TEST(Serve, DeviceAndDevicesExcludeEachOtherButWhatIsTypedGoesBeforeTheEnvironmentAndThatBeforeTheFile) {
  const TempDirectory directory;
  const std::vector<std::string> device{"--device", "cpu", "--context", "200"};
  const std::vector<std::string> devices{"--devices", "cpu", "--context", "200"};
  EXPECT_EQ(Serving("serving ", device, {"CARAT_DEVICES=7,8"}).end(SIGTERM).code, 0);
  EXPECT_EQ(Serving("serving ", devices, {"CARAT_DEVICE=cuda:7"}).end(SIGTERM).code, 0);
  const std::string list = directory.write("list.toml", "devices = [7, 8]\ncontext = 200\n");
  EXPECT_EQ(Serving("serving ", {"--config", list, "--device", "cpu"}).end(SIGTERM).code, 0);
  EXPECT_EQ(Serving("serving ", {"--config", list}, {"CARAT_DEVICE=cpu"}).end(SIGTERM).code, 0);

  const auto serve = [](std::vector<std::string> more, std::vector<std::string> environment = {}) {
    more.insert(more.begin(), {"serve", "/no/such/model", "--port", "0"});
    return run_program(more, "", std::move(environment));
  };
  expect_one_line_error(serve({"--device", "cpu", "--devices", "0,1"}), 2,
                        "--device can't be used together with --devices");
  expect_one_line_error(serve({}, {"CARAT_DEVICE=cpu", "CARAT_DEVICES=0,1"}), 2,
                        "CARAT_DEVICE can't be used together with CARAT_DEVICES");
  expect_one_line_error(serve({"--devices", "x"}, {"CARAT_DEVICE=cpu"}), 2, "carat: --devices: must be");
  const std::string both = directory.write("both.toml", "device = cpu\ndevices = [0, 1]\n");
  expect_one_line_error(serve({"--config", both}), 1,
                        "both.toml, line 2: device can't be used together with devices");
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
