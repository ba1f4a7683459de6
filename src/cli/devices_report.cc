#include "cli/devices_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace thermocline::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string FormatHost(const DevicesReport& report) {
  std::string text =
      fmt::format("host   {} of RAM", FormatBytes(report.ram_bytes));
  if (!report.host.has_value()) return text + "\n";
  const HostReads& host = *report.host;
  if (host.num_threads == 0) {
    return text + fmt::format("; the simulated one reads {:.2f} GB/s\n",
                              host.gb_per_s_median);
  }
  return text +
         fmt::format(
             "; {} {} {:.2f} GB/s of {} (at best {:.2f})\n", host.num_threads,
             host.num_threads == 1 ? "thread reads" : "threads read",
             host.gb_per_s_median, FormatBytes(host.read_bytes), host.gb_per_s);
}

std::string FormatInfo(const device::DeviceInfo& info) {
  return fmt::format(
      "{:6} {}, {}, {} of {} free\n", info.id, info.name,
      info.is_simulated
          ? "simulated"
          : fmt::format("compute capability {}.{}", info.major, info.minor),
      FormatBytes(info.free_bytes), FormatBytes(info.total_bytes));
}

std::string FormatRates(const probe::DeviceRates& rates) {
  std::string text = fmt::format(
      "       memory      {:.2f} GB/s read by products ({}), {:.2f} copied "
      "within it\n"
      "       round trip  {:.2f} us: a row up, an operation, its copy down, "
      "waiting\n"
      "       gather      {:.2f} GB/s, a copy for each of {} records of {}; "
      "{:.2f} read where they lie\n"
      "       link        {:>10} {:>10} {:>10}\n",
      rates.read_gb_per_s, FormatBytes(rates.read_bytes), rates.copy_gb_per_s,
      rates.round_trip_seconds * 1e6, rates.gather_gb_per_s, rates.num_records,
      FormatBytes(rates.record_bytes), rates.in_place_gb_per_s, "copies of",
      "up GB/s", "down GB/s");
  for (const probe::BlockRate& block : rates.blocks) {
    text += fmt::format("                   {:>10} {:>10.2f} {:>10.2f}\n",
                        FormatBytes(block.block_bytes), block.up_gb_per_s,
                        block.down_gb_per_s);
  }
  return text + fmt::format(
                    "       medians of {} rounds, with {} of its memory and {} "
                    "of the host's, locked\n",
                    rates.num_rounds, FormatBytes(rates.device_bytes),
                    FormatBytes(rates.pinned_bytes));
}

Json RatesJson(const probe::DeviceRates& rates) {
  Json blocks = Json::array();
  for (const probe::BlockRate& block : rates.blocks) {
    blocks.push_back({{"block_bytes", block.block_bytes},
                      {"up_gb_per_s", block.up_gb_per_s},
                      {"down_gb_per_s", block.down_gb_per_s}});
  }
  return {{"rounds", rates.num_rounds},
          {"device_bytes_used", rates.device_bytes},
          {"pinned_bytes_used", rates.pinned_bytes},
          {"read_bytes", rates.read_bytes},
          {"read_gb_per_s", rates.read_gb_per_s},
          {"copy_gb_per_s", rates.copy_gb_per_s},
          {"round_trip_seconds", rates.round_trip_seconds},
          {"record_bytes", rates.record_bytes},
          {"records", rates.num_records},
          {"gather_gb_per_s", rates.gather_gb_per_s},
          {"in_place_gb_per_s", rates.in_place_gb_per_s},
          {"link", blocks}};
}

Json DeviceJson(const DeviceEntry& entry) {
  const device::DeviceInfo& info = entry.info;
  return {
      {"id", info.id},
      {"name", info.name},
      {"compute_capability",
       info.is_simulated ? Json()
                         : Json(fmt::format("{}.{}", info.major, info.minor))},
      {"is_simulated", info.is_simulated},
      {"total_bytes", info.total_bytes},
      {"free_bytes", info.free_bytes},
      {"rates", entry.rates ? RatesJson(*entry.rates) : Json()},
      {"problem", entry.problem.empty() ? Json() : Json(entry.problem)}};
}

}  // namespace

std::string FormatDevices(const DevicesReport& report) {
  std::string text = FormatHost(report);
  for (const DeviceEntry& entry : report.devices) {
    text += FormatInfo(entry.info);
    if (entry.rates.has_value()) text += FormatRates(*entry.rates);
    if (!entry.problem.empty()) {
      text += fmt::format("       not measured: {}\n", entry.problem);
    }
  }
  if (!report.why_no_cuda.empty()) {
    text += fmt::format("cuda   none: {}\n", report.why_no_cuda);
  }
  return text;
}

std::string FormatDevicesJson(const DevicesReport& report) {
  Json host = {{"ram_bytes", report.ram_bytes}, {"reads", nullptr}};
  if (report.host.has_value()) {
    const HostReads& reads = *report.host;
    const bool is_simulated = reads.num_threads == 0;
    host["reads"] = {
        {"n_threads", is_simulated ? Json() : Json(reads.num_threads)},
        {"read_bytes", is_simulated ? Json() : Json(reads.read_bytes)},
        {"gb_per_s", reads.gb_per_s},
        {"gb_per_s_median", reads.gb_per_s_median}};
  }
  Json devices = Json::array();
  for (const DeviceEntry& entry : report.devices) {
    devices.push_back(DeviceJson(entry));
  }
  const Json all = {
      {"host", host},
      {"devices", devices},
      {"why_no_cuda",
       report.why_no_cuda.empty() ? Json() : Json(report.why_no_cuda)}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

probe::DeviceRatesOptions RatesWithin(const DeviceFlags& flags) {
  probe::DeviceRatesOptions within;
  // Beside the matrix, what is measured takes a little.
  constexpr uint64_t kBeside = kMiB;
  if (const auto vram = flags.vram()) {
    within.most_bytes =
        std::min(within.most_bytes, std::max(*vram, 2 * kBeside) - kBeside);
  }
  return within;
}

}  // namespace thermocline::cli
