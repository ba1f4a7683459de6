#include <bit>
#include <limits>
#include <utility>

#include "base/check.h"
#include "neuron/active_set.h"
#include "neuron/trace.h"
#include "neuron/trace_layout.h"

namespace thermocline::neuron {
namespace {

using trace_layout::Append;

// A block is written once it has so many bytes.
constexpr size_t kBlockBytes = size_t{64} << 10;

void AppendRun(const TraceRun& run, std::vector<std::byte>& out) {
  Append(uint32_t{run.by_experts}, out);
  Append(static_cast<uint32_t>(run.lessons), out);
  Append(uint32_t{!run.shares.empty()}, out);
  for (const uint32_t slots : run.slots) Append(slots, out);
  for (const std::vector<float>& layer : run.shares) {
    for (const float share : layer) Append(std::bit_cast<uint32_t>(share), out);
  }
}

}  // namespace

TraceWriter::TraceWriter(std::unique_ptr<os::AtomicFile> file,
                         const TraceHeader& header)
    : file_(std::move(file)), header_(header), fired_(header.num_layers) {
  if (header.has_candidates) candidates_.resize(header.num_layers);
  if (header.num_experts > 0) experts_.resize(header.num_layers);
  for (uint32_t k = 0; k <= kMaxTraceLookahead; ++k) {
    if (header.HasLookahead(k) && k < header.num_layers) {
      named_[k].resize(header.num_layers - k);
    }
  }
}

Result<std::unique_ptr<TraceWriter>> TraceWriter::Create(
    const std::string& path, const TraceHeader& header) {
  const std::string_view why = trace_layout::WhyBad(header);
  if (!why.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: no trace can be written: {} ({} layers of {} neurons)",
                path, why, header.num_layers, header.num_neurons);
  }
  TC_ASSIGN_OR_RETURN(auto file, os::AtomicFile::Create(path));
  std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(file), header));
  TC_RETURN_IF_ERROR(writer->WriteHeader());
  // A float for each neuron, which nobody asks for again.
  if (writer->header_.run) writer->header_.run->shares = {};
  return writer;
}

Status TraceWriter::WriteHeader() {
  std::vector<std::byte> out;
  trace_layout::AppendText(trace_layout::kMagic, out);
  Append(trace_layout::kVersion, out);
  Append(header_.num_layers, out);
  Append(header_.num_neurons, out);
  Append(static_cast<uint32_t>(header_.positions), out);
  Append(header_.model_hash, out);
  Append(static_cast<uint32_t>(header_.model_name.size()), out);
  Append((header_.has_candidates ? trace_layout::kHasCandidates : 0) |
             (header_.unit_bytes.empty() ? 0 : trace_layout::kHasUnitBytes) |
             (header_.run ? trace_layout::kHasRun : 0),
         out);
  Append(header_.num_experts, out);
  Append(header_.lookaheads, out);
  trace_layout::AppendText(header_.model_name, out);
  for (const uint64_t bytes : header_.unit_bytes) Append(bytes, out);
  if (header_.run) AppendRun(*header_.run, out);
  trace_layout::AppendCrc(out);
  return file_->Write(out);
}

void TraceWriter::NameSection(std::string_view name) {
  TC_CHECK(name.size() <= kMaxTraceSection);
  section_ = name;
}

void TraceWriter::AddTokens(std::span<const TraceToken> tokens) {
  for (const TraceToken& token : tokens) {
    Waiting waiting = {.token = token, .section = {}};
    if (token.begins_sequence) {
      ++totals_.num_sequences;
      waiting.section = std::exchange(section_, {});
    }
    TC_CHECK(totals_.num_sequences > 0);
    TC_CHECK(!token.is_together || (header_.run && !token.begins_sequence));
    ++totals_.num_tokens;
    waiting_.push_back(std::move(waiting));
  }
}

void TraceWriter::AddTo(Row& row, std::span<const uint32_t> set,
                        uint32_t num_members) {
  TC_CHECK(row.ends.size() < waiting_.size());
  AppendActiveSet(set, num_members, row.bytes);
  row.ends.push_back(row.bytes.size());
}

void TraceWriter::AddSet(size_t layer_idx, std::span<const uint32_t> set) {
  AddTo(fired_[layer_idx], set, header_.num_neurons);
  totals_.num_fired += set.size();
}

void TraceWriter::AddCandidates(size_t layer_idx,
                                std::span<const uint32_t> set) {
  TC_CHECK(layer_idx < candidates_.size());
  AddTo(candidates_[layer_idx], set, header_.num_neurons);
}

void TraceWriter::AddExperts(size_t layer_idx, std::span<const uint32_t> set) {
  TC_CHECK(layer_idx < experts_.size());
  AddTo(experts_[layer_idx], set, header_.num_experts);
}

void TraceWriter::AddNamed(uint32_t lookahead, size_t layer_idx,
                           std::span<const uint32_t> set) {
  TC_CHECK(lookahead < named_.size() && layer_idx >= lookahead &&
           layer_idx - lookahead < named_[lookahead].size());
  AddTo(named_[lookahead][layer_idx - lookahead], set, header_.num_neurons);
}

Status TraceWriter::Flush() {
  std::vector<Row*> rows;
  for (auto* kind : {&fired_, &candidates_, &experts_}) {
    for (Row& row : *kind) rows.push_back(&row);
  }
  for (std::vector<Row>& kind : named_) {
    for (Row& row : kind) rows.push_back(&row);
  }
  for (const Row* row : rows) TC_CHECK(row->ends.size() == waiting_.size());
  for (size_t t = 0; t < waiting_.size(); ++t) {
    const auto& [token, section] = waiting_[t];
    block_.push_back(static_cast<std::byte>(
        (token.begins_sequence ? trace_layout::kBegins : 0) |
        (token.is_generated ? trace_layout::kGenerated : 0) |
        (token.is_together ? trace_layout::kTogether : 0)));
    if (token.begins_sequence) {
      Append(static_cast<uint16_t>(section.size()), block_);
      trace_layout::AppendText(section, block_);
    }
    for (const Row* row : rows) {
      const size_t begin = t == 0 ? 0 : row->ends[t - 1];
      const auto set =
          std::span(row->bytes).subspan(begin, row->ends[t] - begin);
      block_.insert(block_.end(), set.begin(), set.end());
    }
    ++num_block_tokens_;
    if (block_.size() >= kBlockBytes) TC_RETURN_IF_ERROR(WriteBlock());
  }
  waiting_.clear();
  for (Row* row : rows) {
    row->bytes.clear();
    row->ends.clear();
  }
  return {};
}

Status TraceWriter::WriteBlock() {
  TC_CHECK(block_.size() <= std::numeric_limits<uint32_t>::max());
  std::vector<std::byte> head;
  Append(static_cast<uint32_t>(block_.size()), head);
  Append(num_block_tokens_, head);
  std::vector<std::byte> crc;
  Append(Crc32(block_, Crc32(head)), crc);
  TC_RETURN_IF_ERROR(file_->Write(head));
  TC_RETURN_IF_ERROR(file_->Write(block_));
  TC_RETURN_IF_ERROR(file_->Write(crc));
  block_.clear();
  num_block_tokens_ = 0;
  return {};
}

Status TraceWriter::Finish() {
  TC_CHECK(waiting_.empty());
  if (!block_.empty()) TC_RETURN_IF_ERROR(WriteBlock());
  std::vector<std::byte> out;
  Append(uint64_t{0}, out);
  Append(totals_.num_tokens, out);
  Append(totals_.num_sequences, out);
  Append(totals_.num_fired, out);
  trace_layout::AppendCrc(out);
  TC_RETURN_IF_ERROR(file_->Write(out));
  return file_->Commit();
}

}  // namespace thermocline::neuron
