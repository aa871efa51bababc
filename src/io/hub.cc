#include "io/hub.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "base/utf8.h"

namespace carat {
namespace fs = std::filesystem;
namespace {

bool directory_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::optional<fs::path> from_environment(const char* variable) {
  const char* value = std::getenv(variable);
  return value && *value ? std::optional<fs::path>(value) : std::nullopt;
}

/// The same rule as the Hugging Face tools, so that what they downloaded is found.
std::optional<fs::path> hub_cache() {
  if (const auto cache = from_environment("HF_HUB_CACHE")) return *cache;
  if (const auto home = from_environment("HF_HOME")) return *home / "hub";
  if (const auto cache = from_environment("XDG_CACHE_HOME")) return *cache / "huggingface" / "hub";
  if (const auto home = from_environment("HOME")) return *home / ".cache" / "huggingface" / "hub";
  return std::nullopt;
}

constexpr int kMostNameBytes = 96;

/// A name of one path component that can't lead elsewhere.
bool is_plain_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMostNameBytes && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

/// "org/name" -> "models--org--name"; nothing when `model` isn't of that form.
std::optional<std::string> cache_entry(std::string_view model) {
  const std::size_t slash = model.find('/');
  if (slash == model.npos) return std::nullopt;
  const std::string_view org = model.substr(0, slash), name = model.substr(slash + 1);
  if (!is_plain_name(org) || !is_plain_name(name)) return std::nullopt;
  return "models--" + std::string(org) + "--" + std::string(name);
}

/// The snapshot of refs/main, else the one written last.
std::optional<fs::path> find_snapshot(const fs::path& entry) {
  std::string revision;
  const fs::path main = entry / "refs" / "main";
  if (std::error_code ignored; fs::is_regular_file(main, ignored)) {
    std::ifstream(main) >> std::setw(kMostNameBytes + 1) >> revision;
  }
  const fs::path snapshots = entry / "snapshots";
  if (is_plain_name(revision) && directory_exists(snapshots / revision)) return snapshots / revision;

  std::optional<fs::path> newest;
  fs::file_time_type newest_time{};
  std::error_code error;
  for (fs::directory_iterator it(snapshots, error), end; !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    const fs::file_time_type time = fs::last_write_time(it->path(), unreadable);
    if (unreadable || !directory_exists(it->path())) continue;
    if (newest && time <= newest_time) continue;
    newest = it->path();
    newest_time = time;
  }
  return newest;
}

}  // namespace

fs::path find_model(const std::string& model) {
  if (directory_exists(model)) return model;
  std::error_code ignored;
  if (fs::exists(model, ignored)) {
    fail(ErrorKind::not_found, in_quotes(model), " is a file; give the directory that holds config.json");
  }
  const std::optional<std::string> entry = cache_entry(model);
  if (const std::string name = "google/" + model;
      !entry && model.starts_with("gemma-") && cache_entry(name)) {
    fail(ErrorKind::not_found, in_quotes(model), ": no such directory; did you mean ", name,
         "? Download it with: hf download ", name);
  }
  if (!entry) {
    fail(ErrorKind::not_found, in_quotes(model),
         ": no such directory, and not a model's name (org/name) either");
  }
  const std::optional<fs::path> cache = hub_cache();
  if (!cache) {
    fail(ErrorKind::not_found, in_quotes(model),
         ": no such directory, and where the Hugging Face cache is can't be known: none of HF_HUB_CACHE, "
         "HF_HOME, "
         "XDG_CACHE_HOME and HOME is set");
  }
  const fs::path cached = *cache / *entry;
  if (const auto snapshot = find_snapshot(cached)) return *snapshot;
  fail(ErrorKind::not_found, in_quotes(model), ": no such directory, and not in the Hugging Face cache (no ",
       cached.string(), "); download it with: hf download ", model);
}

}  // namespace carat
