#include "io/hub.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <map>
#include <optional>

#include "support/expect_error.h"
#include "support/temp_directory.h"

namespace carat {
namespace {

namespace fs = std::filesystem;

/// Points every variable that names the cache into a temporary directory, and restores them.
class HubTest : public ::testing::Test {
 protected:
  HubTest() {
    for (const char* name : {"HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"}) {
      const char* value = ::getenv(name);
      saved_[name] = value ? std::optional<std::string>(value) : std::nullopt;
      ::unsetenv(name);
    }
    set("HOME", home_.path());
  }
  ~HubTest() override {
    for (const auto& [name, value] : saved_) value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
  }
  static void set(const char* name, const fs::path& value) { ::setenv(name, value.c_str(), 1); }
  /// An empty snapshot of org/model below `cache`.
  fs::path make_snapshot(const fs::path& cache, const std::string& revision) const {
    const fs::path path = home_.path() / cache / "models--org--model" / "snapshots" / revision;
    fs::create_directories(path);
    return path;
  }
  TempDirectory home_;
  std::map<const char*, std::optional<std::string>> saved_;
};

TEST_F(HubTest, ADirectoryIsTakenAsItIs) { EXPECT_EQ(find_model(home_.path().string()), home_.path()); }

TEST_F(HubTest, LooksInTheCachePlacesInTheirOrder) {
  const fs::path in_home = make_snapshot(".cache/huggingface/hub", "a");
  EXPECT_EQ(find_model("org/model"), in_home);
  const fs::path in_xdg = make_snapshot("xdg/huggingface/hub", "a");
  set("XDG_CACHE_HOME", home_.path() / "xdg");
  EXPECT_EQ(find_model("org/model"), in_xdg);
  const fs::path in_hf_home = make_snapshot("hf/hub", "a");
  set("HF_HOME", home_.path() / "hf");
  EXPECT_EQ(find_model("org/model"), in_hf_home);
  const fs::path in_cache = make_snapshot("cache", "a");
  set("HF_HUB_CACHE", home_.path() / "cache");
  EXPECT_EQ(find_model("org/model"), in_cache);
}

TEST_F(HubTest, TakesTheSnapshotOfMain) {
  set("HF_HUB_CACHE", home_.path());
  const fs::path wanted = make_snapshot("", "aaa");
  make_snapshot("", "bbb");
  home_.write("models--org--model/refs/main", "aaa\n");
  EXPECT_EQ(find_model("org/model"), wanted);
}

TEST_F(HubTest, FallsBackToTheNewestSnapshot) {
  set("HF_HUB_CACHE", home_.path());
  const fs::path older = make_snapshot("", "zzz"), newer = make_snapshot("", "aaa");
  fs::last_write_time(older, fs::last_write_time(newer) - std::chrono::hours(1));
  EXPECT_EQ(find_model("org/model"), newer);
  for (const char* useless : {"gone", "", "../../elsewhere", "/etc"}) {
    home_.write("models--org--model/refs/main", useless);
    EXPECT_EQ(find_model("org/model"), newer) << useless;
  }
}

TEST_F(HubTest, SaysHowToGetAMissingModel) {
  set("HF_HUB_CACHE", home_.path());
  expect_error(ErrorKind::not_found,
               {"org/model", "models--org--model", "hf download org/model", home_.path().native()},
               [] { find_model("org/model"); });
}

TEST_F(HubTest, RefusesNamesThatLeadElsewhere) {
  for (const char* name :
       {"", "nothing", "a/b/c", "../model", "org/..", "/org", "org/", "org/mo del", "org/a\nb"}) {
    expect_error(ErrorKind::not_found, {"no such directory"}, [&] { find_model(name); });
  }
}

TEST_F(HubTest, AsksForTheDirectoryOfAFile) {
  const fs::path file = home_.write("model.safetensors", "x");
  expect_error(ErrorKind::not_found, {"is a file", "directory"}, [&] { find_model(file.string()); });
}

TEST_F(HubTest, WithoutAHomeSaysWhichVariablesAreMissing) {
  ::unsetenv("HOME");
  expect_error(ErrorKind::not_found, {"\"org/model\"", "none of HF_HUB_CACHE", "HOME is set"},
               [] { find_model("org/model"); });
}

}  // namespace
}  // namespace carat
