#include "compute/product_scratch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/math.h"
#include "kernels/activation_row.h"
#include "kernels/kernels.h"
#include "os/memory.h"

namespace thermocline::compute {
namespace {

TEST(ProductScratch, HasRoomForEveryFormAndNumberOfRows) {
  constexpr size_t kWidest = 1056;  // not whole groups of what forms unpack
  for (const kernels::Isa isa : kernels::SupportedIsas()) {
    for (const size_t num_rows : {1, 11, 12, 24, 65, 512}) {
      SCOPED_TRACE(fmt::format("{} {}", kernels::NameOf(isa), num_rows));
      const ProductShape shape = {.num_rows = num_rows,
                                  .widest = kWidest,
                                  .num_threads = 3,
                                  .isa = isa};
      Carver plan(nullptr);
      CarveProducts(shape, plan);
      const auto buffer = os::AlignedBuffer::Allocate(plan.used());
      ASSERT_TRUE(buffer.has_value());
      Carver carver(buffer->data());
      const ProductScratch scratch = CarveProducts(shape, carver);
      ASSERT_GE(scratch.tiles, scratch.rounded_rows);
      const auto room =
          static_cast<size_t>(scratch.tiles - scratch.rounded_rows);
      EXPECT_GE(room, num_rows * kernels::ActivationRowBytes(kWidest));
      EXPECT_EQ(scratch.tile_bytes % 64, 0u);
      const kernels::KernelTable& table = kernels::KernelsFor(isa);
      for (const auto* form : {&table.batch, &table.float_batch}) {
        if (!*form) continue;
        // An expert of the batch may have any number of its rows.
        for (size_t count = 1; count <= num_rows; ++count) {
          ASSERT_GE(room, CeilDiv(count, form->group_tokens) *
                              form->group_bytes(kWidest))
              << count;
        }
        EXPECT_GE(scratch.tile_bytes, form->scratch_bytes(kWidest));
      }
      EXPECT_LE(scratch.tiles + 3 * scratch.tile_bytes,
                buffer->data() + plan.used());
    }
  }
}

}  // namespace
}  // namespace thermocline::compute
