// Standard input and output as bytes, without buffering of our own.
#ifndef THERMOCLINE_CLI_STANDARD_IO_H_
#define THERMOCLINE_CLI_STANDARD_IO_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "os/file.h"
#include "text/tokenizer.h"

namespace thermocline::cli {

// Fills those of descriptors 0 to 2 that the caller closed, so that no model
// file becomes "standard output": standard input is empty then, and writing
// standard output is an error, as on a full disk.
void EnsureStandardStreams();

bool StdinIsTerminal();
bool StdoutIsTerminal();
bool StderrIsTerminal();

// Whether both go to one file or pipe (2>&1).
bool StdoutIsStderr();

// Writes all of `text` at once. kCancelled: the reader is gone (`| head`), so
// there is nothing left to do. kIo names the cause (disk full).
Status WriteStdout(std::string_view text);

// Writes to standard error; failures have no one to go to.
void WriteStderr(std::string_view text);

// All of standard input; an interrupt meanwhile ends the process. kIo;
// kResourceExhausted past `max_bytes`.
Result<std::string> ReadStdin(size_t max_bytes = text::kMaxTextBytes);

// Whether a file's name stands for standard input.
bool IsStdin(std::string_view path);

// What messages call an input: its path, or "standard input".
std::string InputName(const std::string& path);

// The same without the folders, "text.txt" of "folder/text.txt": for files that
// go to others. Where a text lies is nobody's business.
std::string InputFileName(const std::string& path);

// All of a file, or of standard input for "-" and "/dev/stdin". The same limit,
// errors and interrupt.
Result<std::string> ReadBytes(const std::string& path);

// The same of a text: a byte order mark that editors put in front is dropped.
Result<std::string> ReadText(const std::string& path);

// A text of any size: a file is mapped, anything else is read as by ReadText;
// without a byte order mark.
class LongText {
 public:
  static Result<LongText> Open(const std::string& path);

  std::string_view text() const;

 private:
  std::optional<os::MappedFile> file_;
  std::string read_;
};

}  // namespace thermocline::cli

#endif  // THERMOCLINE_CLI_STANDARD_IO_H_
