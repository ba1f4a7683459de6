// For tests: prepared files of tiny models, whose records stay there.
#ifndef THERMOCLINE_ENGINE_TESTING_TEST_PREPARED_FILE_H_
#define THERMOCLINE_ENGINE_TESTING_TEST_PREPARED_FILE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime.h"
#include "engine/stream/stream_options.h"
#include "engine/testing/tiny_model.h"
#include "model/test_prepared.h"
#include "os/file.h"
#include "os/test_folder.h"
#include "storage/block_reader.h"

namespace thermocline::engine::testing {

// A prepared file, its bytes for a fake reader, and the model with everything
// in memory.
struct PreparedFile {
  std::string path;
  std::string bytes;
  std::shared_ptr<const model::Model> mapped;

  std::shared_ptr<const model::Model> OpenStreamed() const {
    model::OpenOptions options;
    options.leaves = LeaveRecords;
    auto model = model::Model::Open(path, options);
    EXPECT_TRUE(model) << model.error().message;
    return model ? *model : nullptr;
  }
};

inline PreparedFile PrepareTiny(const os::TestFolder& folder,
                                const TinySpec& spec, size_t record_alignment) {
  PreparedFile file = {.path = folder / "prepared.gguf"};
  const auto source = OpenTinyModel(spec, {.bundle_at_load = true});
  EXPECT_TRUE(source) << source.error().message;
  const Status written =
      model::WritePreparedFile(**source, {}, {}, file.path, record_alignment);
  EXPECT_TRUE(written) << written.error().message;
  file.bytes = os::ReadFile(file.path).value();
  file.mapped = model::Model::Open(file.path).value();
  return file;
}

// `file` outlives what reads it.
inline OpenRecordReader FakeReads(const PreparedFile& file,
                                  storage::FakeOptions options) {
  return [&file, options](const std::vector<std::string>&) {
    return Result<std::unique_ptr<storage::BlockReader>>(
        storage::MakeFakeReader({std::as_bytes(std::span(file.bytes))},
                                options));
  };
}

// What fits of it alone is the least budget.
inline uint64_t LeastBytes(const model::Model& model, SessionOptions options) {
  options.budget.ram = 0;
  return PlanRuntime(model, options).value().memory.host.total();
}

}  // namespace thermocline::engine::testing

#endif  // THERMOCLINE_ENGINE_TESTING_TEST_PREPARED_FILE_H_
