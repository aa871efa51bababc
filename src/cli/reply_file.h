// The output of `carat batch`: whole lines are appended, so that a process that is killed at any moment
// leaves a file that tells exactly which requests are done.
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "cli/batch_request.h"

namespace carat {

class ReplyFile {
 public:
  /// Creates the file, or reads what it has. A last line that was cut off is removed. Throws
  /// Error{unavailable} when it can't be used or another process is writing it, Error{corrupt}, naming the
  /// line, when it holds something else; such a file isn't touched.
  explicit ReplyFile(const std::filesystem::path& path);
  ~ReplyFile();
  ReplyFile(const ReplyFile&) = delete;
  ReplyFile& operator=(const ReplyFile&) = delete;

  /// Whether the request in line `index` has its reply. Throws Error{invalid_argument} when that one is to
  /// another request: the input has changed.
  bool has(uint64_t index, uint32_t line_hash) const;
  /// Throws Error{invalid_argument} when there are replies to requests behind the last of `lines`.
  void check_end(uint64_t lines) const;
  /// Both count what was there before.
  uint64_t replies() const { return replies_; }
  uint64_t failed() const { return failed_; }

  /// Appends a line about `reply`, its newline included; syncs when that is due. Throws Error{unavailable},
  /// after which the file is as before the call.
  void append(std::string_view line, const BatchReplyId& reply);
  /// Syncs when there are lines to sync and the last time is a second ago or more. To be called often, so
  /// that lines don't wait for the next append().
  void sync_if_due();
  /// Waits until all is on the disk.
  void sync();

 private:
  void read_replies();
  void read_line(std::string_view line, uint64_t number);
  void mark(const BatchReplyId& reply);
  [[noreturn]] void fail_to(const char* what) const;

  std::string name_;
  int fd_ = -1;
  int64_t end_ = 0;               // of the last whole line
  std::vector<uint32_t> hashes_;  // per line of the input its hash; 0: no reply
  uint64_t replies_ = 0, failed_ = 0;
  bool has_unsynced_ = false;
  std::chrono::steady_clock::time_point synced_ = std::chrono::steady_clock::now();
};

}  // namespace carat
