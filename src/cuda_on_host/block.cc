#include "cuda_on_host/block.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace thermocline::cuda_on_host {

RunState run_state;
thread_local Thread* self = nullptr;

namespace {

// The body of every fiber: one CUDA thread after another.
void ThreadMain() {
  for (;;) {
    run_state.call->body(run_state.call->parameters);
    self->state = ThreadState::kDone;
    self->parked = true;
    --run_state.block.num_live;
    LeaveWarp(*self);
    ReleaseBarrierIfFull();
    LeaveThread();
  }
}

void StartThread(unsigned i, unsigned block_index) {
  const dim3 g = run_state.shape->grid, b = run_state.shape->block;
  Thread& thread = *run_state.threads[i];
  thread.lane = {
      {i % b.x, i / b.x % b.y, i / b.x / b.y},
      {block_index % g.x, block_index / g.x % g.y, block_index / g.x / g.y},
      b,
      g,
      i % 32,
      i / 32,
      i};
  thread.state = ThreadState::kReady;
  thread.epoch = thread.warp_epoch = 0;
  thread.fenced = false;
  thread.copies.assign(1, {});
  run_state.block.warps[i / 32].live |= 1u << i % 32;
  if (!thread.parked) thread.fiber.Restart(ThreadMain);
  thread.parked = false;
  run_state.block.ready.push_back(i);
}

Thread& TakeNext() {
  auto& ready = run_state.block.ready;
  const auto count = static_cast<unsigned>(ready.size());
  const unsigned pick =
      run_state.options.seed != 0 ? run_state.dice.Below(count) : count - 1;
  const unsigned i = ready[pick];
  ready[pick] = ready.back();
  ready.pop_back();
  return *run_state.threads[i];
}

PlaceKey KeyOf(const Place& place) {
  return {place.file_name(), place.line(), place.column()};
}

void ReportDeadlock() {
  std::string where;
  for (unsigned i = 0; i < run_state.block.num_threads && where.empty(); ++i) {
    const Thread& thread = *run_state.threads[i];
    if (thread.state == ThreadState::kDone) continue;
    where = DescribePlace(KeyOf(thread.place));
  }
  run_state.fault = std::string(run_state.call->name) + ": deadlock, " +
                    std::to_string(run_state.block.num_live) +
                    " threads of a block wait for others that never come, "
                    "one of them at " +
                    where;
  run_state.aborted = true;
}

}  // namespace

std::string DescribePlace(const PlaceKey& place) {
  const auto& [file, line, column] = place;
  return std::string(file.substr(file.rfind('/') + 1)) + ":" +
         std::to_string(line) + ":" + std::to_string(column);
}

void LeaveThread() {
  Thread* me = self;
  self = nullptr;
  me->fiber.Leave();
}

void YieldThread() {
  run_state.block.ready.push_back(self->lane.index);
  LeaveThread();
}

void Wake(Thread& thread) {
  thread.state = ThreadState::kReady;
  run_state.block.ready.push_back(thread.lane.index);
}

void ReleaseBarrierIfFull() {
  Block& block = run_state.block;
  if (block.num_at_barrier == 0 || block.num_at_barrier < block.num_live) {
    return;
  }
  block.num_at_barrier = 0;
  for (unsigned i = 0; i < block.num_threads; ++i) {
    Thread& thread = *run_state.threads[i];
    if (thread.state != ThreadState::kAtBarrier) continue;
    thread.epoch = NextEpoch(thread.epoch);
    Wake(thread);
  }
}

uint16_t NextEpoch(uint16_t epoch) {
  if (epoch == UINT16_MAX) Fault("passes more barriers than can be counted");
  return static_cast<uint16_t>(epoch + 1);
}

bool IsDropped(const Place& place) {
  if (!run_state.options.check) return false;
  const PlaceKey key = KeyOf(place);
  const auto found = run_state.ordering_calls.find(key);
  if (found != run_state.ordering_calls.end()) return found->second;
  const bool dropped = DescribePlace(key) == run_state.options.dropped_call;
  run_state.ordering_calls.emplace(key, dropped);
  return dropped;
}

void SyncThreads(const Place& place) {
  if (IsDropped(place)) return;
  Block& block = run_state.block;
  if (block.num_at_barrier == 0) {
    block.barrier = place;
  } else if (!SamePlace(block.barrier, place)) {
    Fault(
        "__syncthreads of line %u, while others of the block wait at that of "
        "line %u",
        unsigned{place.line()}, unsigned{block.barrier.line()});
  }
  self->state = ThreadState::kAtBarrier;
  self->place = place;
  ++block.num_at_barrier;
  ReleaseBarrierIfFull();
  LeaveThread();
}

void RunBlock(unsigned index) {
  const dim3 b = run_state.shape->block;
  Block& block = run_state.block;
  block.index = index;
  ++block.run;
  block.first = 1 + index * (b.x * b.y * b.z);
  block.num_threads = block.num_live = b.x * b.y * b.z;
  block.num_at_barrier = 0;
  block.warps.clear();
  block.warps.resize((block.num_threads + 31) / 32);
  block.ready.clear();
  while (run_state.threads.size() < block.num_threads) {
    run_state.threads.push_back(std::make_unique<Thread>());
  }
  for (unsigned i = 0; i < block.num_threads; ++i) StartThread(i, index);
  while (!block.ready.empty() && !run_state.aborted) {
    Thread& next = TakeNext();
    ++run_state.stats.switches;
    self = &next;
    next.fiber.Resume();
  }
  if (block.num_live != 0 && !run_state.aborted) ReportDeadlock();
}

const Lane& Self() { return self->lane; }

void Fault(const char* format, ...) {
  char what[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(what, sizeof what, format, arguments);
  va_end(arguments);
  char text[768];
  const Lane& l = self->lane;
  std::snprintf(text, sizeof text, "%s, block (%u,%u,%u) thread (%u,%u,%u): %s",
                run_state.call->name, l.block.x, l.block.y, l.block.z,
                l.thread.x, l.thread.y, l.thread.z, what);
  // The frames above this one are dropped: they own nothing.
  run_state.fault = text;
  run_state.aborted = true;
  LeaveThread();
  std::abort();
}

}  // namespace thermocline::cuda_on_host
