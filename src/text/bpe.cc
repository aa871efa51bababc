#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"
#include "text/byte_piece.h"
#include "text/unicode.h"

namespace carat {
namespace {

constexpr char32_t kSpaceMarkerCode = 0x2581;

/// A space and the marker that the normalizer puts in its place count as one character.
char32_t normalized(char32_t code) { return code == kSpaceMarkerCode ? U' ' : code; }

}  // namespace

/// Ids of words seen lately; a word takes the place of any other with the same slot.
class Bpe::WordCache {
 public:
  static constexpr std::size_t kMaxWordBytes = 31, kMaxIds = 7;
  using Key = std::array<uint64_t, 4>;  // the word, zeros, and its length in the last byte

  struct Entry {
    Key key{};
    std::array<int32_t, kMaxIds> ids{};
    int32_t id_count = 0;
  };

  WordCache() : entries_(kEntries) {}

  static Key key_of(std::string_view word) {
    std::array<char, sizeof(Key)> bytes{};
    std::memcpy(bytes.data(), word.data(), word.size());
    bytes.back() = static_cast<char>(word.size());
    return std::bit_cast<Key>(bytes);
  }
  /// The slot for `key`, which may hold another word.
  Entry& slot(const Key& key) {
    uint64_t hash = 0;
    for (const uint64_t part : key) hash = std::rotl((hash ^ part) * 0x9E3779B97F4A7C15u, 29);
    return entries_[hash % kEntries];
  }

 private:
  static constexpr std::size_t kEntries = 65536;  // 4 MB
  std::vector<Entry> entries_;
};

Bpe::~Bpe() = default;

Bpe::Bpe(Vocabulary vocabulary, const TokenizerFile& file, const std::string& source)
    : vocabulary_(std::move(vocabulary)), fuse_unk_(file.fuse_unk), ignore_merges_(file.ignore_merges) {
  if (file.has_unk_token) unk_id_ = vocabulary_.find(file.unk_token);
  if (file.has_unk_token && unk_id_ < 0)
    fail(ErrorKind::corrupt, source, ": model.unk_token ", in_quotes(file.unk_token),
         " is not in model.vocab");
  for (int c = 0; c < 128; ++c)
    ascii_ids_[static_cast<std::size_t>(c)] = vocabulary_.find(std::string(1, static_cast<char>(c)));
  ascii_ids_[' '] = vocabulary_.find(kSpaceMarker);
  read_byte_pieces();
  read_merges(file, source);
}

/// Cutting is exact only while every symbol is a character or never merges, and no run of unknown characters
/// can reach across the cut.
void Bpe::read_byte_pieces() {
  for (int byte = 0; byte < 256; ++byte) {
    byte_ids_[static_cast<std::size_t>(byte)] = vocabulary_.find(byte_piece(byte));
    cuts_words_ = cuts_words_ && byte_ids_[static_cast<std::size_t>(byte)] >= 0;
  }
}

void Bpe::read_merges(const TokenizerFile& file, const std::string& source) {
  const StringList& parts = file.merge_parts;
  merges_.reserve(parts.size() / 2);
  std::string joined;
  int32_t result = 0;  // merges mostly come in the order of their results
  for (std::size_t i = 0; i < parts.size(); i += 2) {
    const std::string_view left = parts[i], right = parts[i + 1];
    joined.assign(left).append(right);
    const int32_t left_id = vocabulary_.find(left), right_id = vocabulary_.find(right);
    result = vocabulary_.find(joined, result);
    if (left.empty() || right.empty())
      fail(ErrorKind::corrupt, source, ": model.merges[", i / 2, "]: a piece is empty");
    if (left_id < 0 || right_id < 0 || result < 0)
      fail(ErrorKind::corrupt, source, ": model.merges[", i / 2, "]: ",
           in_quotes(left_id < 0    ? left
                     : right_id < 0 ? right
                                    : joined),
           " is not in model.vocab");
    merges_.insert(static_cast<uint32_t>(left_id), static_cast<uint32_t>(right_id),
                   {static_cast<uint32_t>(i / 2), result});
    if (byte_of_piece(left) >= 0 || byte_of_piece(right) >= 0) cuts_words_ = false;
    add_join(left, right);
  }
}

void Bpe::add_join(std::string_view left, std::string_view right) {
  const char32_t before = normalized(character_before(left, left.size()));
  const char32_t after = normalized(character_at(right, 0));
  if (before < 128 && after < 128) {
    ascii_joins_[before].set(after);
  } else {
    joins_.insert(before, after, true);
  }
}

/// The end of the word that begins at `begin`: the first place where no merge can join the neighbours.
std::size_t Bpe::word_end(std::string_view text, std::size_t begin) const {
  std::size_t end = begin + character_bytes(text, begin);
  char32_t left = normalized(character_at(text, begin));
  while (end < text.size()) {
    const char32_t right = normalized(character_at(text, end));
    const bool ascii = left < 128 && right < 128;
    if (!(ascii ? ascii_joins_[left][right] : joins_.find(left, right) != nullptr)) break;
    end += character_bytes(text, end);
    left = right;
  }
  return end;
}

void Bpe::encode(std::string_view text, std::vector<int32_t>& ids) const {
  if (text.empty()) return;
  Workspace workspace;
  if (ignore_merges_) {
    if (const int32_t id = vocabulary_.find(replace_spaces(text)); id >= 0) {
      ids.push_back(id);
      return;
    }
  }
  if (!cuts_words_) return encode_word(text, workspace, ids);

  std::unique_ptr<WordCache> cache = borrow_cache();
  for (std::size_t begin = 0, end; begin < text.size(); begin = end) {
    end = word_end(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    if (word.size() > WordCache::kMaxWordBytes) {
      encode_word(word, workspace, ids);
      continue;
    }
    const WordCache::Key key = WordCache::key_of(word);
    WordCache::Entry& entry = cache->slot(key);
    if (entry.key == key) {
      ids.insert(ids.end(), entry.ids.begin(), entry.ids.begin() + entry.id_count);
      continue;
    }
    const std::size_t first = ids.size();
    encode_word(word, workspace, ids);
    if (const std::size_t count = ids.size() - first; count <= WordCache::kMaxIds) {
      entry.key = key;
      std::copy(ids.end() - static_cast<std::ptrdiff_t>(count), ids.end(), entry.ids.begin());
      entry.id_count = static_cast<int32_t>(count);
    }
  }
  give_back(std::move(cache));
}

void Bpe::encode_word(std::string_view word, Workspace& workspace, std::vector<int32_t>& ids) const {
  read_symbols(word, workspace.symbols);
  if (workspace.symbols.empty()) return;
  merge_symbols(workspace);
  for (int32_t i = 0; i >= 0; i = workspace.symbols[static_cast<std::size_t>(i)].next)
    ids.push_back(workspace.symbols[static_cast<std::size_t>(i)].id);
}

/// One symbol per character; one per byte for a character that is no piece; unk where a byte piece is
/// missing.
void Bpe::read_symbols(std::string_view word, std::vector<Symbol>& symbols) const {
  symbols.clear();
  const auto add = [&](int32_t id) {
    const auto index = static_cast<int32_t>(symbols.size());
    symbols.push_back({id, index - 1, index + 1, {}});
  };
  bool unk_pending = false;
  for (std::size_t at = 0, length; at < word.size(); at += length) {
    length = character_bytes(word, at);
    const std::string_view character = word[at] == ' ' ? kSpaceMarker : word.substr(at, length);
    const int32_t id =
        length == 1 ? ascii_ids_[static_cast<unsigned char>(word[at])] : vocabulary_.find(character);
    if (id >= 0) {
      if (std::exchange(unk_pending, false)) add(unk_id_);
      add(id);
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    if (std::ranges::all_of(character, [&](char byte) { return byte_id(byte) >= 0; })) {
      // A pending unk stays pending, and so comes after these bytes: an oddity of Hugging Face tokenizers.
      for (const char byte : character) add(byte_id(byte));
    } else if (unk_id_ >= 0) {
      if (unk_pending && !fuse_unk_) add(unk_id_);
      unk_pending = true;
    }
  }
  if (unk_pending) add(unk_id_);
  if (!symbols.empty()) symbols.back().next = -1;
}

/// Always merges the pair of lowest rank, the leftmost of equals. The queue may hold outdated entries: a
/// symbol only ever grows, so an entry is still good exactly when its rank is that of the pair which begins
/// there now.
void Bpe::merge_symbols(Workspace& workspace) const {
  std::vector<Symbol>& symbols = workspace.symbols;
  std::vector<uint64_t>& queue = workspace.queue;
  const auto symbol = [&](int32_t i) -> Symbol& { return symbols[static_cast<std::size_t>(i)]; };
  const auto find_merge = [&](int32_t i) {
    Symbol& left = symbol(i);
    left.merge = {};
    if (left.next < 0) return false;
    const Merge* merge =
        merges_.find(static_cast<uint32_t>(left.id), static_cast<uint32_t>(symbol(left.next).id));
    if (merge != nullptr) left.merge = *merge;
    return merge != nullptr;
  };
  const auto entry = [&](int32_t i) {
    return uint64_t{symbol(i).merge.rank} << 32 | static_cast<uint32_t>(i);
  };

  queue.clear();
  for (int32_t i = 0; i < static_cast<int32_t>(symbols.size()); ++i)
    if (find_merge(i)) queue.push_back(entry(i));
  std::ranges::make_heap(queue, std::greater<>{});
  while (!queue.empty()) {
    std::ranges::pop_heap(queue, std::greater<>{});
    const uint64_t top = queue.back();
    queue.pop_back();
    const auto at = static_cast<int32_t>(top & 0xFFFFFFFFu);
    Symbol& left = symbol(at);
    if (left.merge.rank != top >> 32) continue;
    Symbol& right = symbol(left.next);
    left.id = left.merge.result;
    left.next = right.next;
    right.merge.rank = kNoRank;
    if (left.next >= 0) symbol(left.next).previous = at;
    for (const int32_t i : {left.previous, at}) {
      if (i < 0 || !find_merge(i)) continue;
      queue.push_back(entry(i));
      std::ranges::push_heap(queue, std::greater<>{});
    }
  }
}

std::unique_ptr<Bpe::WordCache> Bpe::borrow_cache() const {
  const std::lock_guard lock(idle_caches_mutex_);
  if (idle_caches_.empty()) return std::make_unique<WordCache>();
  std::unique_ptr<WordCache> cache = std::move(idle_caches_.back());
  idle_caches_.pop_back();
  return cache;
}

void Bpe::give_back(std::unique_ptr<WordCache> cache) const {
  const std::lock_guard lock(idle_caches_mutex_);
  idle_caches_.push_back(std::move(cache));
}

}  // namespace carat
