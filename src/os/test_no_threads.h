// For tests: a system that gives no more threads.
#ifndef THERMOCLINE_OS_TEST_NO_THREADS_H_
#define THERMOCLINE_OS_TEST_NO_THREADS_H_

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace thermocline::os {

// While one lives, a thread that says nothing of its stack asks for one that no
// address space holds.
class NoMoreThreads {
 public:
  NoMoreThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, size_t{1} << 60);
    EXPECT_EQ(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
  }
  ~NoMoreThreads() {
    EXPECT_EQ(pthread_setattr_default_np(&before_), 0);
    pthread_attr_destroy(&before_);
  }
  NoMoreThreads(const NoMoreThreads&) = delete;
  NoMoreThreads& operator=(const NoMoreThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace thermocline::os

#endif  // THERMOCLINE_OS_TEST_NO_THREADS_H_
