#include "engine/scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/math.h"
#include "engine/ffn/piece_sums.h"
#include "kernels/activation_row.h"
#include "kernels/kernels.h"
#include "os/memory.h"

namespace thermocline::engine {
namespace {

model::Config SmallConfig() {
  model::Config config;
  config.num_layers = 2;
  config.width = 90;
  config.ffn_width = 130;
  config.num_heads = 6;
  config.num_kv_heads = 3;
  config.key_width = 10;
  config.value_width = 12;
  config.vocab_size = 20;
  config.rope.width = 10;
  return config;
}

TEST(Scratch, RowsAreAlignedDisjointAndInside) {
  const ScratchShape shape = {.batch = 3, .context = 17, .num_threads = 2};
  const auto num_bytes = ScratchBytes(SmallConfig(), shape);
  ASSERT_TRUE(num_bytes.has_value());
  const auto buffer = os::AlignedBuffer::Allocate(*num_bytes);
  ASSERT_TRUE(buffer.has_value());
  const Scratch s = MakeScratch(SmallConfig(), shape, buffer->data());

  const std::vector<std::pair<Rows, size_t>> all = {
      {s.residual, 90}, {s.normed, 90},  {s.delta, 90},    {s.q, 60},
      {s.k, 30},        {s.v, 36},       {s.attended, 72}, {s.gate, 130},
      {s.up, 130},      {s.rope_cos, 5}, {s.rope_sin, 5}};
  const std::byte* end_of_last = buffer->data();
  for (const auto& [rows, width] : all) {
    EXPECT_EQ(rows.width, width);
    EXPECT_GE(rows.stride, rows.width);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(rows.row(0)) % 64, 0u);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(rows.row(1)) % 64, 0u);
    EXPECT_GE(reinterpret_cast<std::byte*>(rows.data), end_of_last);
    end_of_last = reinterpret_cast<std::byte*>(rows.row(3));
  }
  const AttentionScratch& a = s.attention;
  EXPECT_EQ(a.work.width, kernels::AttentionScratchFloats(10, 12));
  EXPECT_EQ(a.sums.width, 2 * kernels::kAttentionQueries * 32);
  EXPECT_EQ(a.partials.width, 32u);  // 12, to a line, and a line
  EXPECT_GE(reinterpret_cast<std::byte*>(a.work.data), end_of_last);
  EXPECT_GE(a.sums.data, a.work.row(2));
  EXPECT_GE(a.partials.data, a.sums.row(2));
  end_of_last = reinterpret_cast<std::byte*>(a.partials.row(3 * 6));
  EXPECT_GE(s.rounded_rows, end_of_last);
  EXPECT_LT(s.rounded_rows, buffer->data() + *num_bytes);
}

TEST(Scratch, PartialSumsOfAFewTokensGrowWithTheContext) {
  const auto bytes_of = [](int64_t batch, int64_t context) {
    return ScratchBytes(SmallConfig(),
                        {.batch = batch, .context = context, .num_threads = 2})
        .value();
  };
  constexpr size_t kPiece = kernels::kAttentionPiece;
  EXPECT_EQ(bytes_of(3, kPiece), bytes_of(3, 1));
  EXPECT_EQ(bytes_of(3, 9 * kPiece) - bytes_of(3, kPiece), 8 * 3 * 6 * 32 * 4u);
  EXPECT_EQ(bytes_of(99, 9 * kPiece) - bytes_of(99, kPiece),
            8 * AttentionScratch::kSplitTokens * 6 * 32 * 4);
}

TEST(Scratch, NoGateNoRoom) {
  const ScratchShape shape = {.batch = 2, .context = 8, .num_threads = 1};
  model::Config config = SmallConfig();
  const auto gated = ScratchBytes(config, shape);
  config.ffn.gated = false;
  const auto plain = ScratchBytes(config, shape);
  ASSERT_TRUE(gated.has_value() && plain.has_value());
  EXPECT_EQ(*gated - *plain, 2u * 144 * sizeof(float));  // 130, to a line
}

TEST(Scratch, ExpertsGetRoomForEveryTokenInOneOfThem) {
  const ScratchShape shape = {.batch = 3, .context = 17, .num_threads = 2};
  model::Config config = SmallConfig();
  const auto without = ScratchBytes(config, shape);
  config.ffn.num_experts = 40;
  config.ffn.num_experts_used = 20;
  const auto with = ScratchBytes(config, shape);
  ASSERT_TRUE(without.has_value() && with.has_value());
  EXPECT_GT(*with, *without);
  const auto buffer = os::AlignedBuffer::Allocate(*with);
  ASSERT_TRUE(buffer.has_value());
  const Scratch scratch = MakeScratch(config, shape, buffer->data());
  const ExpertScratch& e = scratch.experts;
  const std::pair<const void*, size_t> pieces[] = {
      {e.shares.data, 3 * e.shares.stride * sizeof(float)},
      {e.weights.data, 3 * e.weights.stride * sizeof(float)},
      {e.chosen, size_t{3} * 20 * sizeof(uint32_t)},
      {e.group_begin, 41 * sizeof(size_t)},
      {e.grouped, size_t{3} * 20 * sizeof(size_t)},
      {e.in.data, 3 * e.in.stride * sizeof(float)},
      {e.out.data, 3 * e.out.stride * sizeof(float)}};
  const auto* end_of_last =
      reinterpret_cast<const std::byte*>(scratch.attention.partials.row(3 * 6));
  for (const auto& [data, num_bytes] : pieces) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
    EXPECT_GE(static_cast<const std::byte*>(data), end_of_last);
    end_of_last = static_cast<const std::byte*>(data) + num_bytes;
  }
  EXPECT_EQ(e.shares.width, 40u);
  EXPECT_EQ(e.weights.width, 20u);
  EXPECT_EQ(e.in.width, 90u);
  EXPECT_EQ(e.out.width, 90u);
  EXPECT_GE(scratch.rounded_rows, end_of_last);
}

TEST(Scratch, SparseFfnsGetRoomForCandidatesOfOneOrTwoLayers) {
  const ScratchShape shape = {
      .batch = 3, .context = 17, .num_threads = 2, .ffn = FfnMode::kFast};
  model::Config config = SmallConfig();
  config.ffn.gated = false;
  for (const int64_t lookahead : {0, 1}) {
    config.predictor.lookahead = lookahead;
    const auto num_bytes = ScratchBytes(config, shape);
    ASSERT_TRUE(num_bytes.has_value());
    const auto buffer = os::AlignedBuffer::Allocate(*num_bytes);
    ASSERT_TRUE(buffer.has_value());
    const Scratch scratch = MakeScratch(config, shape, buffer->data());
    const SparseScratch& sparse = scratch.sparse;
    EXPECT_EQ(scratch.gate.width, 130u);  // predictors use it
    // 130 neurons take 3 words.
    const uint64_t* words = sparse.candidates(0, 0).words;
    EXPECT_GE(reinterpret_cast<const float*>(words),
              scratch.attention.partials.row(3 * 6));
    EXPECT_EQ(sparse.candidates(0, 2).words, words + 2 * 3);
    EXPECT_EQ(sparse.candidates(2, 1).words, words + 3);
    EXPECT_EQ(sparse.candidates(1, 0).words, words + lookahead * 3 * 3);
    EXPECT_EQ(sparse.candidates(0, 0).num_neurons, 130u);
    EXPECT_EQ(sparse.group, 3u);
    const std::pair<const void*, size_t> pieces[] = {
        {words, (lookahead + 1) * 3 * 3 * sizeof(uint64_t)},
        {sparse.all_ids, 130 * sizeof(uint32_t)},
        {sparse.ids, size_t{3} * 130 * sizeof(uint32_t)},
        {sparse.fired, size_t{3} * 130 * sizeof(uint32_t)},
        {sparse.sums.data,
         PieceSums::kMaxPieces * 3 * sparse.sums.stride * sizeof(float)},
        {sparse.signs, size_t{3} * 2 * sizeof(uint64_t)},
        {sparse.differences, 2 * SparseScratch::kSignRows * sizeof(uint32_t)}};
    const std::byte* end_of_last = nullptr;
    for (const auto& [data, num_piece_bytes] : pieces) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0u);
      EXPECT_GE(static_cast<const std::byte*>(data), end_of_last);
      end_of_last = static_cast<const std::byte*>(data) + num_piece_bytes;
    }
    EXPECT_GE(scratch.rounded_rows, end_of_last);
  }
}

TEST(Scratch, ObserversGetRoomForTheNeuronsOfAllExperts) {
  const ScratchShape shape = {
      .batch = 3, .context = 17, .num_threads = 2, .observed = true};
  model::Config config = SmallConfig();
  config.ffn.num_experts = 4;
  config.ffn.num_experts_used = 2;
  config.parallel_block = true;
  const auto num_bytes = ScratchBytes(config, shape);
  ASSERT_TRUE(num_bytes.has_value());
  const auto buffer = os::AlignedBuffer::Allocate(*num_bytes);
  ASSERT_TRUE(buffer.has_value());
  const Scratch scratch = MakeScratch(config, shape, buffer->data());
  const ObservedScratch& observed = scratch.observed;
  ASSERT_TRUE(static_cast<bool>(observed));
  EXPECT_EQ(observed.num_neurons, 4u * 130);
  // 520 neurons take 9 words.
  EXPECT_EQ(observed.fired(2).words, observed.words + 5 * 9);
  EXPECT_GE(observed.ids,
            reinterpret_cast<const uint32_t*>(observed.words + 6 * 9));
  EXPECT_GE(observed.expert_words,
            reinterpret_cast<const uint64_t*>(observed.ids + 2 * 520));
  EXPECT_GE(observed.gates.data,
            reinterpret_cast<const float*>(observed.expert_words + 6 * 3));
  EXPECT_EQ(observed.gates.width, 2u * 130);  // of the experts in use
  EXPECT_GE(observed.stream.data, observed.gates.row(3));
  EXPECT_GE(reinterpret_cast<const float*>(scratch.rounded_rows),
            observed.stream.row(3));
}

// Whether products of a batch of at most `shape.batch` tokens can take a form.
bool CanTake(const kernels::BatchMatMul& form, const ScratchShape& shape) {
  const auto& table = kernels::KernelsFor(shape.isa);
  if (shape.products_batch > 0) {
    return table.batch_for(static_cast<size_t>(shape.products_batch)) == &form;
  }
  return form.min_tokens <= static_cast<size_t>(shape.batch);
}

// `widest`: elements of the widest input of a matrix.
void ExpectRoomForProducts(const model::Config& config,
                           const ScratchShape& shape, size_t widest) {
  const auto num_bytes = ScratchBytes(config, shape);
  ASSERT_TRUE(num_bytes.has_value());
  const auto buffer = os::AlignedBuffer::Allocate(*num_bytes);
  ASSERT_TRUE(buffer.has_value());
  const Scratch scratch = MakeScratch(config, shape, buffer->data());
  ASSERT_GE(scratch.tiles, scratch.rounded_rows);
  const size_t room = static_cast<size_t>(scratch.tiles - scratch.rounded_rows);
  const size_t batch = static_cast<size_t>(shape.batch);
  EXPECT_GE(room, batch * kernels::ActivationRowBytes(widest));
  EXPECT_EQ(scratch.tile_bytes % 64, 0u);
  const kernels::KernelTable& table = kernels::KernelsFor(shape.isa);
  for (const kernels::BatchMatMul* form :
       {&table.batch, &table.large_batch, &table.float_batch}) {
    if (!CanTake(*form, shape)) continue;
    // An expert of the batch may have any number of its tokens.
    for (size_t count = 1; count <= batch; ++count) {
      ASSERT_GE(room,
                CeilDiv(count, form->group_tokens) * form->group_bytes(widest))
          << count;
    }
    EXPECT_GE(scratch.tile_bytes, form->scratch_bytes(widest));
  }
  EXPECT_LE(scratch.tiles +
                static_cast<size_t>(shape.num_threads) * scratch.tile_bytes,
            buffer->data() + *num_bytes);
}

TEST(Scratch, ProductsGetRoomForEveryFormThatTheyCanTake) {
  constexpr size_t kWidest = 1056;  // not whole groups of what forms unpack
  model::Config wide_ffn = SmallConfig();
  wide_ffn.width = 256;
  wide_ffn.ffn_width = kWidest;
  model::Config wide_attention = SmallConfig();
  wide_attention.width = 256;
  wide_attention.ffn_width = 512;
  wide_attention.num_heads = 33;
  wide_attention.value_width = 32;
  for (const kernels::Isa isa : kernels::SupportedIsas()) {
    for (const int64_t batch : {11, 12, 23, 24, 63, 64, 65, 512}) {
      for (const int64_t products_batch : {0, 1, 24, 64}) {
        SCOPED_TRACE(fmt::format("{} {} {}", kernels::NameOf(isa), batch,
                                 products_batch));
        const ScratchShape shape = {.batch = batch,
                                    .context = 8,
                                    .num_threads = 3,
                                    .isa = isa,
                                    .products_batch = products_batch};
        ExpectRoomForProducts(wide_ffn, shape, kWidest);
        ExpectRoomForProducts(wide_attention, shape, kWidest);
      }
    }
  }
}

TEST(Scratch, OverflowIsAnError) {
  const std::vector<ScratchShape> shapes = {
      {.batch = 1, .context = INT64_MAX, .num_threads = 500},
      {.batch = INT64_MAX, .context = INT64_MAX, .num_threads = 1},
      {.batch = int64_t{1} << 54,
       .context = int64_t{1} << 54,
       .num_threads = 1},
  };
  for (const ScratchShape& shape : shapes) {
    const auto num_bytes = ScratchBytes(SmallConfig(), shape);
    ASSERT_FALSE(num_bytes.has_value()) << *num_bytes;
    EXPECT_EQ(num_bytes.error().code, ErrorCode::kResourceExhausted);
  }
}

}  // namespace
}  // namespace thermocline::engine
