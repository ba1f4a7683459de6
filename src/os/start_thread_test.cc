#include "os/start_thread.h"

#include <gtest/gtest.h>

#include "os/test_no_threads.h"
#include "os/thread_pool.h"

namespace thermocline::os {
namespace {

TEST(StartThreadTest, ItWorks) {
  bool is_done = false;
  auto thread = StartThread("a thread", [&] { is_done = true; });
  ASSERT_TRUE(thread.has_value()) << thread.error().message;
  thread->join();
  EXPECT_TRUE(is_done);
}

TEST(StartThreadTest, WithoutOneThatIsAnError) {
  const NoMoreThreads none;
  const auto thread = StartThread("thread 2 of 3", [] {});
  ASSERT_FALSE(thread.has_value());
  EXPECT_EQ(thread.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(thread.error().message.find("cannot start thread 2 of 3: "), 0u);
  const auto pool = ThreadPool::Create({.num_threads = 3});
  ASSERT_FALSE(pool.has_value());
  EXPECT_EQ(pool.error().message.find("cannot start thread 2 of 3: "), 0u);
}

}  // namespace
}  // namespace thermocline::os
