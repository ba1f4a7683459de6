// Our quantisers against the files that llama.cpp's made from the same F16
// model: the simple types agree bit by bit, the K types have less error; no
// tensor has 2 % more. The files of the simple types are not stored but made
// anew; that they are llama.cpp's is known from the sums of its files, which
// tests/make_testdata.py compares tensor by tensor.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "gguf/gguf.h"
#include "quantize/plan.h"
#include "tensor/codec.h"

namespace thermocline::quantize {
namespace {

std::unique_ptr<const gguf::File> OpenGolden(const std::string& type) {
  const std::string path =
      std::string(TC_TEST_DATA) + "/golden/llama-gqa-" + type + ".gguf";
  auto file = gguf::File::Open(path);
  EXPECT_TRUE(file.has_value()) << path;
  return file ? std::move(file).value() : nullptr;
}

std::vector<float> Elements(const TensorView& view) {
  std::vector<float> values(view.shape.num_elems());
  DequantizeRow(view.dtype, view.data, values);
  return values;
}

double SquaredError(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double diff = double{a[i]} - double{b[i]};
    sum += diff * diff;
  }
  return sum;
}

struct Comparison {
  double ours = 0.0;  // squared errors, summed over the tensors
  double theirs = 0.0;
  double worst_ratio = 0.0;  // of one tensor's root mean square errors
  size_t num_equal_bytes = 0;
  size_t num_bytes = 0;

  void Add(const TensorView& original, const TensorView& golden) {
    const auto truth = Elements(original);
    std::vector<std::byte> bytes(golden.num_bytes());
    QuantizeRow(golden.dtype, truth, bytes.data());
    const TensorView made = {golden.dtype, golden.shape, bytes.data()};
    const double our_error = SquaredError(truth, Elements(made));
    const double their_error = SquaredError(truth, Elements(golden));
    ours += our_error;
    theirs += their_error;
    worst_ratio = std::max(worst_ratio, std::sqrt(our_error / their_error));
    num_bytes += bytes.size();
    for (size_t i = 0; i < bytes.size(); ++i) {
      num_equal_bytes += bytes[i] == golden.data[i];
    }
  }
};

// All tensors of `dtype` in the file of this quantisation mix.
Comparison Compare(const std::string& mix, DType dtype) {
  Comparison comparison;
  const auto original = OpenGolden("f16");
  const auto golden = OpenGolden(mix);
  if (original == nullptr || golden == nullptr) return comparison;
  for (const gguf::TensorInfo& info : golden->tensors()) {
    if (info.dtype != dtype) continue;
    comparison.Add(original->Tensor(info.name),
                   {info.dtype, info.shape, info.data});
  }
  return comparison;
}

class QuantizerGoldenTest
    : public ::testing::TestWithParam<std::pair<const char*, DType>> {};

TEST_P(QuantizerGoldenTest, ErrorIsNoMoreThanLlamaCpps) {
  const auto& [mix, dtype] = GetParam();
  const Comparison comparison = Compare(mix, dtype);
  ASSERT_GT(comparison.num_bytes, 0u);
  const double ratio = std::sqrt(comparison.ours / comparison.theirs);
  RecordProperty("rmse_ratio", std::to_string(ratio));
  EXPECT_LE(ratio, 1.0);
  EXPECT_LE(comparison.worst_ratio, 1.02);
  if (InfoOf(dtype).block_elems == 32) {
    EXPECT_EQ(comparison.num_equal_bytes, comparison.num_bytes);
  }
}

// The whole file's types, tensor by tensor, are llama.cpp's too.
TEST(QuantizerGoldenPlanTest, TypesOfEveryTensor) {
  const auto original = OpenGolden("f16");
  ASSERT_NE(original, nullptr);
  for (const char* type :
       {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K_M", "Q5_K_M", "Q6_K"}) {
    const auto golden = OpenGolden(type);
    ASSERT_NE(golden, nullptr);
    QuantizeOptions options;
    options.type = gguf::FindFileType(type)->type;
    const auto plan = PlanQuantization(*original, options);
    ASSERT_TRUE(plan.has_value()) << plan.error().message;
    ASSERT_EQ(plan->tensors.size(), golden->tensors().size());
    for (const QuantizedTensor& tensor : plan->tensors) {
      EXPECT_EQ(tensor.dtype, golden->FindTensor(tensor.source->name)->dtype)
          << type << " " << tensor.source->name;
    }
    EXPECT_EQ(golden->Int("general.file_type").value(),
              static_cast<int64_t>(plan->type));
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypes, QuantizerGoldenTest,
                         ::testing::Values(std::pair("Q8_0", DType::kQ8_0),
                                           std::pair("Q4_0", DType::kQ4_0),
                                           std::pair("Q4_1", DType::kQ4_1),
                                           std::pair("Q5_0", DType::kQ5_0),
                                           std::pair("Q5_1", DType::kQ5_1),
                                           std::pair("Q4_K_M", DType::kQ4_K),
                                           std::pair("Q5_K_M", DType::kQ5_K),
                                           std::pair("Q4_K_M", DType::kQ6_K),
                                           std::pair("Q6_K", DType::kQ6_K)),
                         [](const auto& test) {
                           return std::string(test.param.first) + "_as_" +
                                  std::string(NameOf(test.param.second));
                         });

}  // namespace
}  // namespace thermocline::quantize
