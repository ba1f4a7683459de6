#include "bench/io_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace thermocline::bench {
namespace {

constexpr double kWidth = 420.0, kHeight = 300.0;  // of a panel's axes
constexpr double kLeft = 60.0, kTop = 60.0, kGap = 110.0;
constexpr std::array<std::string_view, 6> kColours = {
    "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf"};

// [depth] MB/s by block size, in a range as large as any.
using Lines = std::map<size_t, std::map<size_t, double>>;

Lines LinesOf(const IoReport& report, bool is_random) {
  uint64_t whole = 0;
  for (const probe::StorageRate& rate : report.rates.rates) {
    whole = std::max(whole, rate.range_bytes);
  }
  Lines lines;
  for (const probe::StorageRate& rate : report.rates.rates) {
    if (rate.is_random != is_random || rate.range_bytes != whole) continue;
    lines[rate.depth][rate.block_bytes] = rate.mb_per_s();
  }
  return lines;
}

std::string EscapeXml(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '<') {
      escaped += "&lt;";
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (static_cast<unsigned char>(c) < 0x20 ||
               static_cast<unsigned char>(c) >= 0x7f) {
      escaped += '?';
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// Of both panels, so that they compare.
class IoScale {
 public:
  explicit IoScale(const IoReport& report) {
    for (const probe::StorageRate& rate : report.rates.rates) {
      const auto block = static_cast<double>(rate.block_bytes);
      least_block_ = std::min(least_block_, block);
      most_block_ = std::max(most_block_, block);
      least_ = std::min(least_, rate.mb_per_s());
      most_ = std::max(most_, rate.mb_per_s());
    }
    least_ = std::pow(10.0, std::floor(std::log10(std::max(least_, 1e-3))));
    most_ = std::pow(10.0, std::ceil(std::log10(std::max(most_, 1e-2))));
    if (most_ <= least_) most_ = 10.0 * least_;
  }

  double X(double block) const {
    if (most_block_ <= least_block_) return kWidth / 2;
    return kWidth * std::log(block / least_block_) /
           std::log(most_block_ / least_block_);
  }
  double Y(double mb_per_s) const {
    return kHeight -
           kHeight * std::log(mb_per_s / least_) / std::log(most_ / least_);
  }
  double least() const { return least_; }
  double most() const { return most_; }

 private:
  double least_block_ = 1e18, most_block_ = 0.0;
  double least_ = 1e18, most_ = 0.0;
};

std::string Text(double x, double y, std::string_view anchor,
                 std::string_view text) {
  return fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
      anchor, text);
}

std::string DrawAxes(const IoScale& scale, const Lines& lines) {
  std::string svg = fmt::format(
      "<rect width=\"{:.0f}\" height=\"{:.0f}\" fill=\"none\" "
      "stroke=\"#888\"/>\n",
      kWidth, kHeight);
  for (double value = scale.least(); value <= 1.001 * scale.most();
       value *= 10.0) {
    svg += fmt::format(
        "<line x2=\"{:.0f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
        kWidth, scale.Y(value), scale.Y(value));
    svg += Text(-8, scale.Y(value) + 4, "end", fmt::format("{:g}", value));
  }
  if (lines.empty()) return svg;
  for (const auto& [block, rate] : lines.begin()->second) {
    svg += Text(scale.X(static_cast<double>(block)), kHeight + 18, "middle",
                block >= kMiB ? fmt::format("{}M", block / kMiB)
                              : fmt::format("{}K", block / kKiB));
  }
  return svg + Text(kWidth / 2, kHeight + 38, "middle", "block, bytes");
}

// Names stay apart where lines end together.
std::string DrawLines(const IoScale& scale, const Lines& lines) {
  std::string svg;
  size_t colour_idx = 0;
  std::vector<std::pair<double, std::string>> names;
  for (const auto& [depth, rates] : lines) {
    const std::string_view colour = kColours[colour_idx++ % kColours.size()];
    std::string points;
    for (const auto& [block, rate] : rates) {
      const double x = scale.X(static_cast<double>(block));
      points += fmt::format("{:.1f},{:.1f} ", x, scale.Y(rate));
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{} "
          "KiB, {} under way: {:.1f} MB/s</title></circle>\n",
          x, scale.Y(rate), colour, block / kKiB, depth, rate);
    }
    svg += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" "
        "stroke-width=\"2\"/>\n",
        points, colour);
    names.emplace_back(
        scale.Y(rates.rbegin()->second) + 4,
        fmt::format("<tspan fill=\"{}\">{} under way</tspan>", colour, depth));
  }
  std::ranges::sort(names);
  double least_y = 0.0;
  for (const auto& [y, name] : names) {
    const double at = std::max(y, least_y);
    svg += Text(kWidth + 6, at, "start", name);
    least_y = at + 14;
  }
  return svg;
}

}  // namespace

std::string DrawIo(const IoReport& report) {
  const IoScale scale(report);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"#fff\"/>\n",
      kLeft + 2 * (kWidth + kGap), kTop + kHeight + 60);
  svg +=
      Text(kLeft, 20, "start",
           fmt::format("MB/s by block size: {}, {}, {}", EscapeXml(report.path),
                       report.rates.reader, EscapeXml(report.cpu)));
  for (const bool is_random : {true, false}) {
    const Lines lines = LinesOf(report, is_random);
    svg += fmt::format("<g transform=\"translate({:.0f},{:.0f})\">\n",
                       kLeft + (is_random ? 0 : kWidth + kGap), kTop);
    svg += Text(0, -10, "start", is_random ? "random" : "sequential");
    svg += DrawAxes(scale, lines) + DrawLines(scale, lines) + "</g>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace thermocline::bench
