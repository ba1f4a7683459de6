#include "os/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>

#include "base/check.h"
#include "base/math.h"
#include "base/units.h"
#include "os/cgroup.h"

namespace thermocline::os {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kMapFromBytes = size_t{1} << 20;

// New zeroed pages from a multiple of kHugePageBytes on, or null. Kernels
// before 6.7 put mappings anywhere, and a huge page then has no place at either
// end: more is mapped, and what sticks out given back.
std::byte* MapAligned(size_t num_bytes) {
  const size_t with_slack = num_bytes + kHugePageBytes;
  void* memory = mmap(nullptr, with_slack, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* const begin = static_cast<std::byte*>(memory);
  const size_t num_before =
      -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  std::byte* const aligned = begin + num_before;
  if (num_before > 0) munmap(begin, num_before);
  munmap(aligned + num_bytes, with_slack - num_before - num_bytes);
  // Advice: kernels without huge pages refuse it.
  madvise(aligned, num_bytes, MADV_HUGEPAGE);
  return aligned;
}

Error NoMemory(size_t num_bytes) {
  return {
      ErrorCode::kResourceExhausted,
      fmt::format("no memory: the system refuses {}", FormatBytes(num_bytes))};
}

std::optional<uint64_t> ParseCount(std::string_view text) {
  uint64_t value = 0;
  const auto result =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// The number behind "name" at the start of a line, which may be followed by ':'
// and spaces.
std::optional<uint64_t> FindField(std::istream& file, std::string_view name) {
  std::string line;
  while (std::getline(file, line)) {
    std::string_view rest = line;
    if (!rest.starts_with(name)) continue;
    rest.remove_prefix(name.size());
    const size_t digit = rest.find_first_not_of(": \t");
    if (digit == 0 || digit == std::string_view::npos) continue;
    return ParseCount(rest.substr(digit));
  }
  return std::nullopt;
}

std::optional<uint64_t> ReadField(const std::string& path,
                                  std::string_view name) {
  std::ifstream file(path);
  return FindField(file, name);
}

std::optional<uint64_t> ReadKibField(const std::string& path,
                                     std::string_view name) {
  const auto kib = ReadField(path, name);
  if (!kib) return std::nullopt;
  return CheckedMul(*kib, kKiB);
}

// A file that holds one number; nullopt for "max".
std::optional<uint64_t> ReadCount(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return ParseCount(word);
}

// What the files of a memory cgroup and their fields are called.
struct CgroupNames {
  const char* limit;
  const char* usage;
  const char* active_file;
  const char* inactive_file;
};
constexpr CgroupNames kCgroup2 = {"memory.max", "memory.current", "active_file",
                                  "inactive_file"};
constexpr CgroupNames kCgroup1 = {"memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_active_file",
                                  "total_inactive_file"};

// Lowers `info` to what the group in `folder` may still use. Its cached file
// pages can be dropped, so they do not count as used.
void ApplyGroup(const std::string& folder, const CgroupNames& names,
                MemoryInfo& info) {
  const auto limit = ReadCount(folder + "/" + names.limit);
  if (!limit) return;
  info.total_bytes = std::min(info.total_bytes, *limit);
  const std::string stat = folder + "/memory.stat";
  const uint64_t usage =
      ReadCount(folder + "/" + names.usage).value_or(uint64_t{0});
  const uint64_t cached = ReadField(stat, names.active_file).value_or(0) +
                          ReadField(stat, names.inactive_file).value_or(0);
  const uint64_t held = usage - std::min(usage, cached);
  info.available_bytes =
      std::min(info.available_bytes, *limit - std::min(*limit, held));
}

uint64_t PhysicalBytes() {
  const long num_pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  if (num_pages <= 0 || page_bytes <= 0) return 0;
  return static_cast<uint64_t>(num_pages) * static_cast<uint64_t>(page_bytes);
}

}  // namespace

Result<AlignedBuffer> AlignedBuffer::Allocate(size_t num_bytes) {
  AlignedBuffer buffer;
  if (num_bytes == 0) return buffer;
  if (num_bytes > std::numeric_limits<size_t>::max() / 2) {
    return tl::unexpected(NoMemory(num_bytes));
  }
  if (num_bytes < kMapFromBytes) {
    const size_t padded = RoundUp(num_bytes, kAlignment);
    void* memory = std::aligned_alloc(kAlignment, padded);
    if (memory == nullptr) return tl::unexpected(NoMemory(num_bytes));
    std::memset(memory, 0, padded);
    buffer.data_ = static_cast<std::byte*>(memory);
  } else {
    // Whole huge pages: the last one too can then be one.
    const size_t padded = RoundUp(num_bytes, kHugePageBytes);
    buffer.data_ = MapAligned(padded);
    if (buffer.data_ == nullptr) return tl::unexpected(NoMemory(num_bytes));
    buffer.mapped_bytes_ = padded;
  }
  buffer.size_ = num_bytes;
  return buffer;
}

Result<AlignedBuffer> AlignedBuffer::Reserve(size_t num_bytes) {
  AlignedBuffer buffer;
  if (num_bytes == 0) return buffer;
  void* memory = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return tl::unexpected(NoMemory(num_bytes));
  madvise(memory, num_bytes, MADV_NOHUGEPAGE);
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.size_ = buffer.mapped_bytes_ = num_bytes;
  return buffer;
}

AlignedBuffer& AlignedBuffer::operator=(AlignedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

AlignedBuffer::~AlignedBuffer() {
  if (mapped_bytes_ > 0) {
    munmap(data_, mapped_bytes_);
  } else {
    std::free(data_);
  }
}

void AlignedBuffer::CheckFits(size_t count, size_t elem_bytes) const {
  TC_CHECK(count <= size_ / elem_bytes);
}

MemoryInfo ReadMemoryInfo(const std::string& proc_root,
                          const std::string& sys_root) {
  const std::string meminfo = proc_root + "/meminfo";
  MemoryInfo info;
  info.total_bytes = ReadKibField(meminfo, "MemTotal").value_or(0);
  if (info.total_bytes == 0) info.total_bytes = PhysicalBytes();
  info.available_bytes =
      ReadKibField(meminfo, "MemAvailable").value_or(info.total_bytes);
  for (const CgroupFolder& group : FindCgroups("memory", proc_root, sys_root)) {
    ApplyGroup(group.path, group.version == 2 ? kCgroup2 : kCgroup1, info);
  }
  info.available_bytes = std::min(info.available_bytes, info.total_bytes);
  return info;
}

ProcessMemory ReadProcessMemory() {
  const std::string status = "/proc/self/status";
  return {.anonymous_bytes = ReadKibField(status, "RssAnon").value_or(0),
          .mapped_bytes = ReadKibField(status, "RssFile").value_or(0),
          .locked_bytes = ReadKibField(status, "VmLck").value_or(0)};
}

HugePageShares ReadHugePageShares(const std::string& proc_root) {
  // Read once: the kernel walks the page tables each time.
  std::stringstream smaps;
  smaps << std::ifstream(proc_root + "/self/smaps_rollup").rdbuf();
  const auto kib = [&smaps](std::string_view name) {
    smaps.clear();
    smaps.seekg(0);
    return static_cast<double>(FindField(smaps, name).value_or(0));
  };
  const double anonymous = kib("Anonymous");
  const double mapped = kib("Rss") - anonymous;
  const auto share = [](double part, double whole) {
    return whole > 0 ? std::min(part / whole, 1.0) : 0.0;
  };
  return {.anonymous = share(kib("AnonHugePages"), anonymous),
          .mapped = share(kib("FilePmdMapped"), mapped)};
}

}  // namespace thermocline::os
