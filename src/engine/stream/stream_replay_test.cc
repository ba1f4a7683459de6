#include "engine/stream/stream_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <span>
#include <string>

#include "engine/left_tensors.h"
#include "engine/session.h"
#include "engine/testing/tiny_model.h"
#include "model/test_prepared.h"
#include "os/file.h"
#include "os/test_folder.h"
#include "storage/block_reader.h"

namespace thermocline::engine {
namespace {

// A model's file, prepared or as it is.
std::string WriteReplayed(const os::TestFolder& folder,
                          const testing::TinySpec& spec, bool is_prepared) {
  const auto model =
      testing::OpenTinyModel(spec, {.bundle_at_load = is_prepared}).value();
  const std::string path = folder / "m.gguf";
  if (is_prepared) {
    EXPECT_TRUE(model::WritePreparedFile(*model, {}, {}, path, 4096));
    return path;
  }
  const gguf::TensorInfo& first = model->file().tensors().front();
  return folder.Write("m.gguf",
                      {reinterpret_cast<const char*>(first.data - first.offset),
                       model->file().num_file_bytes()});
}

// A session with the least memory.
std::unique_ptr<Session> OpenReplayed(const std::string& path,
                                      SessionOptions options) {
  options.budget.ram = 0;
  model::OpenOptions open;
  open.leaves = [&](const gguf::File& file, const model::Config& config) {
    return TensorsToLeave(file, config, options);
  };
  const auto model = model::Model::Open(path, open).value();
  options.budget.ram = PlanRuntime(*model, options)->memory.host.total();
  auto session = Session::Create(model, options);
  EXPECT_TRUE(session) << session.error().message;
  return session ? *std::move(session) : nullptr;
}

Status GenerateLogged(Session& session, storage::ReadLog& log, int count) {
  const auto prompt = testing::RandomTokens(4, 50);
  TC_RETURN_IF_ERROR(session.Prompt(prompt, LogitsOf::kNone, {}));
  for (int i = 0; i < count; ++i) {
    log.BeginToken();
    const Status status =
        session.Generate(std::span(prompt).first(1), LogitsOf::kNone, {});
    log.EndToken();
    TC_RETURN_IF_ERROR(status);
  }
  return {};
}

// Three tokens of a model that streams, and their reads again.
void CheckReplay(StreamUnit unit, const testing::TinySpec& spec,
                 StorageMode mode) {
  const os::TestFolder folder;
  const auto log = std::make_shared<storage::ReadLog>();
  SessionOptions options = {.context = 16, .num_threads = 2};
  options.storage = mode;
  options.read_log = log;
  auto session = OpenReplayed(
      WriteReplayed(folder, spec, unit == StreamUnit::kRecords), options);
  ASSERT_NE(session, nullptr);
  ASSERT_NE(session->stream(), nullptr);
  EXPECT_EQ(session->stream_totals().unit, unit);
  ASSERT_TRUE(GenerateLogged(*session, *log, 3));
  uint64_t num_bytes = 0;
  for (const storage::LoggedRead& read : log->reads()) {
    num_bytes += read.num_bytes;
  }
  EXPECT_GT(num_bytes, 0u);
  EXPECT_EQ(num_bytes, session->stream_totals().generated.num_bytes);
  EXPECT_EQ(log->reader_name(), session->stream()->reader().name());

  const auto replay = ReplayStream(session->model().file(), *log);
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_EQ(replay->seconds.size(), 3u);
  EXPECT_EQ(replay->in_turns_seconds.size(), 3u);
  EXPECT_GT(std::reduce(replay->seconds.begin(), replay->seconds.end()), 0.0);
  EXPECT_EQ(replay->reader, log->reader_name());
  EXPECT_EQ(replay->depth, log->depth());
}

TEST(StreamReplayTest, ReadsWhatTokensOfAnyUnitRead) {
  testing::TinySpec layers;
  layers.num_layers = 5;
  testing::TinySpec records = layers;
  records.activation = "relu";
  testing::TinySpec experts = layers;
  testing::UseArchitecture("mixtral", experts);
  const struct {
    StreamUnit unit;
    testing::TinySpec spec;
    StorageMode mode;
  } cases[] = {{StreamUnit::kLayers, layers, StorageMode::kCluster},
               {StreamUnit::kExperts, experts, StorageMode::kCluster},
               {StreamUnit::kRecords, records, StorageMode::kCluster},
               {StreamUnit::kRecords, records, StorageMode::kMatrix},
               {StreamUnit::kRecords, records, StorageMode::kWindow}};
  for (const auto& [unit, spec, mode] : cases) {
    SCOPED_TRACE(std::string(NameOf(unit)) + " " + std::string(NameOf(mode)));
    CheckReplay(unit, spec, mode);
  }
}

// Counts the reads to memory that it was told of, and others.
struct ToldReads {
  size_t inside = 0, outside = 0;
};
class ToldReader final : public storage::BlockReader {
 public:
  ToldReader(std::unique_ptr<storage::BlockReader> reader, ToldReads* counts)
      : reader_(std::move(reader)), counts_(counts) {}
  std::string_view name() const override { return reader_->name(); }
  size_t alignment() const override { return reader_->alignment(); }
  uint64_t file_bytes(uint32_t file_idx) const override {
    return reader_->file_bytes(file_idx);
  }
  std::optional<os::FileIdentity> identity(uint32_t file_idx) const override {
    return reader_->identity(file_idx);
  }
  Status CheckUnchanged() const override { return {}; }
  void RegisterMemory(std::span<const std::span<std::byte>> ranges) override {
    EXPECT_TRUE(told_.empty());
    ASSERT_EQ(ranges.size(), 1u);
    told_ = ranges.front();
  }
  void Submit(std::span<const storage::Read> reads) override {
    for (const storage::Read& read : reads) {
      const bool is_inside =
          read.to >= told_.data() &&
          read.to + read.num_bytes <= told_.data() + told_.size();
      ++(is_inside ? counts_->inside : counts_->outside);
    }
    reader_->Submit(reads);
  }
  size_t Reap(std::span<storage::Done> done, bool waits) override {
    return reader_->Reap(done, waits);
  }
  storage::ReaderStats stats() const override { return reader_->stats(); }

 private:
  std::unique_ptr<storage::BlockReader> reader_;
  ToldReads* counts_;
  std::span<std::byte> told_;
};

// As the run's: else the replay would take longer than reads have to.
TEST(StreamReplayTest, ReadsToMemoryThatTheReaderKnows) {
  const os::TestFolder folder;
  const std::string path = WriteReplayed(folder, {.num_layers = 5}, false);
  const auto log = std::make_shared<storage::ReadLog>();
  const auto session =
      OpenReplayed(path, {.context = 16, .num_threads = 1, .read_log = log});
  ASSERT_TRUE(GenerateLogged(*session, *log, 2));
  const std::string bytes = os::ReadFile(path).value();
  ToldReads counts;
  const auto replay = ReplayStream(
      session->model().file(), *log, [&](const std::vector<std::string>&) {
        return Result<std::unique_ptr<storage::BlockReader>>(
            std::make_unique<ToldReader>(
                storage::MakeFakeReader({std::as_bytes(std::span(bytes))}, {}),
                &counts));
      });
  ASSERT_TRUE(replay) << replay.error().message;
  EXPECT_EQ(counts.outside, 0u);
  EXPECT_EQ(counts.inside, 2 * log->reads().size());
}

TEST(StreamReplayTest, AReadThatFailsIsItsError) {
  const os::TestFolder folder;
  const std::string path = WriteReplayed(folder, {.num_layers = 5}, false);
  const auto log = std::make_shared<storage::ReadLog>();
  const auto session =
      OpenReplayed(path, {.context = 16, .num_threads = 1, .read_log = log});
  ASSERT_TRUE(GenerateLogged(*session, *log, 1));
  const std::string bytes = os::ReadFile(path).value();
  const auto replay = ReplayStream(
      session->model().file(), *log, [&](const std::vector<std::string>&) {
        return Result<std::unique_ptr<storage::BlockReader>>(
            storage::MakeFakeReader({std::as_bytes(std::span(bytes))},
                                    {.fail_read = 1}));
      });
  ASSERT_FALSE(replay);
  EXPECT_EQ(replay.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace thermocline::engine
