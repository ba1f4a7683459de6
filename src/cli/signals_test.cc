#include "cli/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>

#include "os/file.h"

namespace thermocline::cli {
namespace {

// Every test runs in a child of its own: signals and exits belong to processes.

TEST(SignalsDeathTest, FirstInterruptSetsTheFlagAndTheSecondExits) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        std::raise(SIGINT);
        if (!CancelFlag()->load() || InterruptSignal() != SIGINT) ::_exit(1);
        std::raise(SIGINT);
        ::_exit(2);
      },
      ::testing::ExitedWithCode(130), "");
}

TEST(SignalsDeathTest, TerminationAndHangupCountAsInterrupts) {
  for (const int signal : {SIGTERM, SIGHUP}) {
    EXPECT_EXIT(
        {
          std::signal(signal, SIG_DFL);
          InstallSignalHandlers();
          std::raise(signal);
          const bool is_set = CancelFlag()->load();
          ::_exit(is_set && InterruptSignal() == signal ? 0 : 1);
        },
        ::testing::ExitedWithCode(0), "");
  }
}

TEST(SignalsDeathTest, AnIgnoredHangupStaysIgnored) {
  EXPECT_EXIT(
      {
        std::signal(SIGHUP, SIG_IGN);  // as nohup does
        InstallSignalHandlers();
        std::raise(SIGHUP);
        ::_exit(CancelFlag()->load() || InterruptSignal() != 0 ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, InterruptEndsAnExitScopeAtOnce) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        {
          ExitOnInterrupt finished;
        }
        ExitOnInterrupt scope;
        std::raise(SIGINT);
        ::_exit(1);
      },
      ::testing::ExitedWithCode(130), "");
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        std::raise(SIGINT);
        ExitOnInterrupt scope;
        ::_exit(1);
      },
      ::testing::ExitedWithCode(130), "");
}

TEST(SignalsDeathTest, CtrlCIsTakenWhereItIsCaught) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        if (TakeCtrlC()) ::_exit(1);
        CatchCtrlC scope;
        std::raise(SIGINT);
        std::raise(SIGINT);  // does not end the process
        if (!CancelFlag()->load()) ::_exit(2);
        if (!TakeCtrlC() || TakeCtrlC()) ::_exit(3);
        if (CancelFlag()->load() || InterruptSignal() != 0) ::_exit(4);
        std::raise(SIGINT);
        ::_exit(InterruptSignal() == SIGINT ? 0 : 5);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, OtherSignalsAreNotTaken) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        CatchCtrlC scope;
        std::raise(SIGTERM);
        std::raise(SIGINT);
        if (TakeCtrlC() || InterruptSignal() != SIGTERM) ::_exit(1);
        if (!CancelFlag()->load()) ::_exit(2);
        std::raise(SIGTERM);
        ::_exit(3);
      },
      ::testing::ExitedWithCode(143), "");
}

TEST(SignalsDeathTest, WaitingEndsWithInputOrAnInterrupt) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        InstallSignalHandlers();  // again, as several runs in a test do
        CatchCtrlC scope;
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(1);
        if (::write(ends[1], "x", 1) != 1) ::_exit(1);
        if (!WaitForInput(ends[0])) ::_exit(2);
        char byte = 0;
        if (::read(ends[0], &byte, 1) != 1) ::_exit(1);
        // Set before the wait begins: nothing interrupts poll().
        std::raise(SIGINT);
        if (WaitForInput(ends[0])) ::_exit(3);
        if (!TakeCtrlC()) ::_exit(4);
        // What the signal left behind does not end the next wait.
        ::close(ends[1]);
        if (!WaitForInput(ends[0])) ::_exit(5);  // the end
        ::_exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, GoingOnAfterAStopIsToldToWhoWaits) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(1);
        std::raise(SIGCONT);
        if (!TakeContinue() || TakeContinue()) ::_exit(2);
        std::raise(SIGCONT);
        int num_told = 0;
        const bool has_input = WaitForInput(ends[0], [&] {
          ++num_told;
          ::close(ends[1]);  // so that the wait ends
        });
        ::_exit(has_input && num_told == 1 && !CancelFlag()->load() ? 0 : 3);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, WritingToAClosedPipeDoesNotKill) {
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        int ends[2];
        if (::pipe(ends) != 0) ::_exit(1);
        ::close(ends[0]);
        ::_exit(::write(ends[1], "x", 1) == -1 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(SignalsDeathTest, AShrinkingMappedFileIsNamed) {
  const std::string path =
      ::testing::TempDir() + "shrinks_" + std::to_string(::getpid());
  std::ofstream(path) << std::string(1 << 16, 'x');
  EXPECT_EXIT(
      {
        InstallSignalHandlers();
        auto file = os::MappedFile::Open(path);
        if (!file.has_value() || ::truncate(path.c_str(), 0) != 0) ::_exit(3);
        const volatile std::byte* bytes = file->bytes().data();
        [[maybe_unused]] const std::byte read = bytes[1 << 15];
        ::_exit(4);
      },
      ::testing::ExitedWithCode(1),
      "thermocline: error: .*shrinks_.*: shrank or cannot be read");
  std::remove(path.c_str());
}

}  // namespace
}  // namespace thermocline::cli
