#include "cli/activity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cli/test_main.h"
#include "gguf/writer.h"
#include "model/prepared_names.h"
#include "model/profile_file.h"

namespace thermocline::cli {
namespace {

// A copy of a file with another profile; counts of layers that it lacks stay.
void WriteWithProfile(const gguf::File& file, const model::ProfileFile& profile,
                      const std::string& path) {
  const auto writer = gguf::Writer::Create(path, gguf::Container::kGguf,
                                           gguf::Writer::kMaxAlignment)
                          .value();
  for (const gguf::KeyValue& kv : file.metadata()) {
    if (kv.key == "general.alignment") continue;
    if (kv.key.starts_with("thermocline.profile.")) continue;
    ASSERT_TRUE(writer->AddKeyValue(kv));
  }
  for (const gguf::KeyValue& kv : model::ProfileKeys(profile)) {
    ASSERT_TRUE(writer->AddKeyValue(kv));
  }
  for (const gguf::TensorInfo& info : file.tensors()) {
    ASSERT_TRUE(writer->DeclareTensor(info.name, info.dtype, info.shape));
  }
  ASSERT_TRUE(writer->Start());
  for (const gguf::TensorInfo& info : file.tensors()) {
    std::span<const std::byte> data(info.data, info.num_bytes);
    for (size_t i = 0; i < profile.profile.layers.size(); ++i) {
      if (info.name !=
          model::prepared::OfLayer(i, model::prepared::kProfileCounts)) {
        continue;
      }
      data = std::as_bytes(std::span(profile.profile.layers[i].counts));
    }
    ASSERT_TRUE(writer->WriteTensorData(data));
  }
  ASSERT_TRUE(writer->Finish());
}

// Of a copy of the file, with that profile.
Result<Activity> ActivityWith(const gguf::File& original,
                              const model::ProfileFile& profile) {
  const std::string path = TempPath("changed.gguf");
  WriteWithProfile(original, profile, path);
  const auto model = model::Model::Open(path);
  std::remove(path.c_str());
  TC_RETURN_IF_ERROR(model);
  EXPECT_TRUE(HasProfile(**model));
  return ReadActivity(**model, {});
}

// A file may say anything: of how many layers its profile is, that it is
// another's, or of no token.
TEST(ActivityTest, RefusesAProfileThatIsNone) {
  const std::string path = TempPath("profiled.gguf");
  ASSERT_EQ(
      RunMain({"synth", "--like", "tiny", "-t", "1", "-o", path}).exit_code, 0);
  const auto original = gguf::File::Open(path).value();
  const auto own = model::ReadProfile(*original).value();
  const auto activity = ActivityWith(*original, own);
  ASSERT_TRUE(activity) << activity.error().message;
  EXPECT_NEAR(activity->frequencies[1][5],
              own.profile.layers[1].counts[5] / 1e6, 1e-6);

  model::ProfileFile short_one = own;
  short_one.model.num_layers = 1;
  short_one.profile.layers.pop_back();
  model::ProfileFile others = own;
  ++others.model.hash;
  model::ProfileFile idle = own;
  for (neuron::LayerProfile& layer : idle.profile.layers) {
    layer = {.counts = std::vector<uint32_t>(layer.counts.size())};
  }
  for (const auto& [profile, message] :
       {std::pair(short_one, "its number of layers is 1, here it is 2"),
        std::pair(others, "for another model"),
        std::pair(idle, "in its profile of 0 tokens no neuron fired")}) {
    const auto refused = ActivityWith(*original, profile);
    ASSERT_FALSE(refused) << message;
    EXPECT_THAT(refused.error().message, ::testing::HasSubstr(message));
  }
  std::remove(path.c_str());
}

}  // namespace
}  // namespace thermocline::cli
