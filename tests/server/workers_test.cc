#include "server/workers.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>

namespace carat {
namespace {

/// Keeps the only worker busy until told.
class Blocker {
 public:
  explicit Blocker(Workers& workers) {
    EXPECT_TRUE(workers.try_post([this] {
      begun_.set_value();
      open_.get_future().wait();
    }));
    begun_.get_future().wait();
  }
  void release() { open_.set_value(); }

 private:
  std::promise<void> begun_, open_;
};

TEST(Workers, RefuseNewWorkBeyondTheLimitButNeverContinuations) {
  Workers workers(1, 2);
  Blocker blocker(workers);
  std::promise<void> done;
  EXPECT_TRUE(workers.try_post([] {}));
  EXPECT_TRUE(workers.try_post([] {}));
  EXPECT_FALSE(workers.try_post([] {}));
  for (int i = 0; i < 10; ++i) workers.post([] {});
  workers.post([&] { done.set_value(); });
  blocker.release();
  done.get_future().wait();
}

TEST(Workers, ContinueAcceptedWorkBeforeNewWork) {
  Workers workers(1, 8);
  Blocker blocker(workers);
  std::string order;
  std::promise<void> done;
  workers.try_post([&] { order += 'n'; });
  workers.post([&] { order += 'c'; });
  workers.post([&] { order += 'c'; });
  workers.try_post([&] { done.set_value(); });
  blocker.release();
  done.get_future().wait();
  EXPECT_EQ(order, "ccn");
}

TEST(Workers, AtTheEndDropNewWorkAndFinishAcceptedWork) {
  int finished = 0;
  const auto token = std::make_shared<int>(0);
  Workers* workers = new Workers(1, 1'000'000);
  Blocker blocker(*workers);
  workers->post([token, &finished] { ++finished; });
  std::thread end([&] { delete workers; });
  while (workers->try_post([token] { ADD_FAILURE(); })) std::this_thread::yield();
  blocker.release();
  end.join();
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(finished, 1);
}

TEST(Workers, AfterTheEndAcceptedWorkRunsAtOnce) {
  Workers workers(1);
  workers.stop();
  bool ran = false;
  workers.post([&] { ran = true; });
  EXPECT_TRUE(ran);
  EXPECT_FALSE(workers.try_post([] { ADD_FAILURE(); }));
}

}  // namespace
}  // namespace carat
