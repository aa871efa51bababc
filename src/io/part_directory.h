// A directory that gets its name only once everything in it is written and on the disk: until then it is
// called NAME.part. Whatever ends the program, no half of a checkpoint is ever called NAME.
#pragma once
#include <filesystem>

namespace carat {

class PartDirectory {
 public:
  /// Creates `target` + ".part", replacing what an interrupted run left there. Throws Error{invalid_argument}
  /// when `target` exists, or when the part is not ours or another program is writing it; Error{unavailable}
  /// when it can't be created.
  explicit PartDirectory(std::filesystem::path target);
  /// Removes the part; gone already after commit().
  ~PartDirectory();
  PartDirectory(const PartDirectory&) = delete;
  PartDirectory& operator=(const PartDirectory&) = delete;

  /// Where to write until commit().
  const std::filesystem::path& path() const { return part_; }
  /// Waits until the files are on the disk, then renames. Throws Error{unavailable}.
  void commit();

 private:
  void remove_leftover() const;
  void lock();

  std::filesystem::path target_, part_;
  int lock_ = -1;  // held while the part is being written; the kernel lets go of it however a program ends
};

}  // namespace carat
