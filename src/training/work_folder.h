// What a long preparation has finished, kept beside its output until that is
// there: a folder with a file per stage, each written whole or not at all.
#ifndef THERMOCLINE_TRAINING_WORK_FOLDER_H_
#define THERMOCLINE_TRAINING_WORK_FOLDER_H_

#include <string>
#include <utility>

#include "base/status.h"
#include "os/folder_lock.h"

namespace thermocline::training {

// Owns the folder's lock: one preparation at a time works in it. What is on
// disk stays until Remove. Move-only.
class WorkFolder {
 public:
  // "M.tc.gguf.work" for "M.tc.gguf".
  static std::string PathFor(const std::string& output) {
    return output + ".work";
  }

  // Makes the folder, or goes on with one that was made for the same
  // `description`: lines that name everything the stages' results depend on.
  // kInvalidArgument: another WorkFolder, in whatever process, is open there;
  // it was made for another description (model, text or options), with the
  // first line that differs, or its description is cut off; kIo. What is there
  // is not touched then.
  static Result<WorkFolder> Open(const std::string& path,
                                 const std::string& description);

  const std::string& path() const { return path_; }
  bool is_resumed() const { return is_resumed_; }

  std::string FileOf(const std::string& stage) const {
    return path_ + "/" + stage + ".gguf";
  }
  // FileOf, to write it. kIo: the folder was deleted since it was opened, and
  // what has its name now, if anything, is another command's.
  Result<std::string> FileToWrite(const std::string& stage) const;
  // Finishes a stage whose file was written: notes its checksum beside it.
  // FileToWrite's errors; kIo. Cost: reads the file, at about 2 ns per byte.
  Status Finish(const std::string& stage) const;
  // Whether the stage is finished.
  bool Has(const std::string& stage) const;
  // FileOf, to read it, of a finished stage. Unreadable's errors: it does not
  // hold the bytes that it was finished with. Cost: as Finish.
  Result<std::string> FileToRead(const std::string& stage) const;

  // Whether no stage is finished: then the folder is worth nothing.
  bool IsEmpty() const { return IsEmptyAt(path_); }
  // The same of a folder that is not open; true if there is none.
  static bool IsEmptyAt(const std::string& path);

  // The error of reading a stage's file, with what to do about it;
  // FileToWrite's where that is why.
  tl::unexpected<Error> Unreadable(const Error& error) const;

  // Deletes the files that stages wrote, and the folder if nothing else is in
  // it; nothing if another folder has its name. What somebody else deleted is
  // no error.
  Status Remove() const;

 private:
  WorkFolder(std::string path, os::FolderLock lock, bool is_resumed)
      : path_(std::move(path)),
        lock_(std::move(lock)),
        is_resumed_(is_resumed) {}

  Status CheckIsOurs() const;

  std::string path_;
  os::FolderLock lock_;
  bool is_resumed_;
};

}  // namespace thermocline::training

#endif  // THERMOCLINE_TRAINING_WORK_FOLDER_H_
