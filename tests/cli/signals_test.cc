#include <optional>

#include "cli/program.h"

namespace carat {
namespace {

/// A long reply into a pipe that holds less than all of it: after the first byte it can't have ended yet.
class LongReply {
 public:
  explicit LongReply(const std::string& model, int ignored = 0) {
    if (::pipe2(ends_, O_CLOEXEC) != 0 || ::fcntl(ends_[1], F_SETPIPE_SZ, 4096) > 4096)
      throw std::runtime_error("no small pipe");
    program_.emplace(std::vector<std::string>{"run", model, "-p", "Once upon a time", "--ignore-eos", "-n",
                                              "2000", "--mmap"},
                     ends_[1], ignored);
    char first = 0;
    EXPECT_EQ(::read(ends_[0], &first, 1), 1);
  }
  const Program& program() const { return *program_; }
  Finished finish() {
    char buffer[4096];
    while (::read(ends_[0], buffer, sizeof buffer) > 0) {
    }
    ::close(ends_[0]);
    return program_->wait();
  }

 private:
  int ends_[2];
  std::optional<Program> program_;
};

TEST(Signals, ModelFileThatIsCutWhileInUseEndsTheProgramWithALine) {
  const TempDirectory copy;
  copy_checkpoint(kDemoModel, copy);
  LongReply reply(copy.path());
  for (const auto& entry : std::filesystem::directory_iterator(copy.path()))
    if (entry.path().extension() == ".safetensors") std::filesystem::resize_file(entry.path(), 0);
  const Finished finished = reply.finish();
  EXPECT_EQ(finished.code, 1);
  EXPECT_EQ(finished.err, "carat: a model file was changed while in use\n");
}

TEST(Signals, AnIgnoredSignalStaysIgnored) {
  LongReply reply(kDemoModel, SIGINT);
  reply.program().interrupt();
  const Finished finished = reply.finish();
  EXPECT_EQ(finished.code, 0);
  EXPECT_NE(finished.err.find(" 2000 generated"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace carat
