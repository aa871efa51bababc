#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.h"
#include "base/utf8.h"

namespace carat {
namespace {

using nlohmann::json;

constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the reference implementation's limit

struct DTypeRow {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array kDTypes{
    DTypeRow{DType::f64, "F64", 8},         DTypeRow{DType::f32, "F32", 4},
    DTypeRow{DType::f16, "F16", 2},         DTypeRow{DType::bf16, "BF16", 2},
    DTypeRow{DType::i64, "I64", 8},         DTypeRow{DType::i32, "I32", 4},
    DTypeRow{DType::i16, "I16", 2},         DTypeRow{DType::i8, "I8", 1},
    DTypeRow{DType::u8, "U8", 1},           DTypeRow{DType::boolean, "BOOL", 1},
    DTypeRow{DType::f8_e4m3, "F8_E4M3", 1}, DTypeRow{DType::f8_e5m2, "F8_E5M2", 1},
    DTypeRow{DType::other, "other", 0},
};

const DTypeRow& row(DType dtype) {
  return *std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeRow& r) { return r.dtype == dtype; });
}

DType dtype_named(std::string_view name) {
  const auto found =
      std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeRow& r) { return r.name == name; });
  return found == kDTypes.end() ? DType::other : found->dtype;
}

/// One tensor as the header states it; offsets count from the start of the data.
struct Entry {
  std::string name, dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;
};

/// Receives the header's JSON event by event (nlohmann's SAX interface), so that nothing is built but the
/// entries and nesting costs no stack. Whatever is not part of the format ends in an Error.
class HeaderReader {
 public:
  explicit HeaderReader(const std::string& source) : source_(source) {}
  std::vector<Entry> take() { return std::move(entries_); }

  bool key(std::string& name) {
    if (place_ == Place::file) return open_entry(name);
    if (place_ == Place::metadata) return true;
    field_ = name == "dtype"          ? kDType
             : name == "shape"        ? kShape
             : name == "data_offsets" ? kOffsets
                                      : kNoField;
    if (field_ == kNoField) reject("has the unknown field ", in_quotes(name));
    if (seen_ & field_) reject("has ", name, " twice");
    seen_ |= field_;
    return true;
  }
  bool start_object(std::size_t) {
    if (place_ == Place::outside) {
      place_ = Place::file;
    } else if (place_ == Place::file) {
      place_ = in_metadata_ ? Place::metadata : Place::tensor;
    } else {
      reject("holds an object where none belongs");
    }
    return true;
  }
  bool end_object() {
    if (place_ == Place::tensor) close_entry();
    place_ = place_ == Place::file ? Place::outside : Place::file;
    return true;
  }
  bool start_array(std::size_t) {
    if (place_ != Place::tensor || field_ == kDType) reject("holds a list where none belongs");
    place_ = field_ == kShape ? Place::shape : Place::offsets;
    return true;
  }
  bool end_array() {
    place_ = Place::tensor;
    return true;
  }
  bool string(std::string& value) {
    if (place_ == Place::metadata) return true;
    if (place_ != Place::tensor || field_ != kDType)
      reject("holds the text ", in_quotes(value), " where none belongs");
    entries_.back().dtype = value;
    return true;
  }
  bool number_unsigned(uint64_t value) {
    if (place_ == Place::shape) {
      if (value > uint64_t{std::numeric_limits<int64_t>::max()})
        reject("has the impossible dimension ", value);
      entries_.back().shape.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::offsets && offsets_ < 2) {
      (offsets_++ == 0 ? entries_.back().begin : entries_.back().end) = value;
    } else {
      reject("holds the number ", value, " where none belongs");
    }
    return true;
  }
  bool number_integer(int64_t value) { reject("holds the negative number ", value); }
  bool number_float(double, const std::string& digits) {
    reject("holds ", in_quotes(digits), ", which is not a 64-bit integer");
  }
  bool boolean(bool) { reject("holds a boolean where none belongs"); }
  bool null() {
    if (place_ != Place::file || !in_metadata_) reject("holds a null where none belongs");
    return true;
  }
  bool binary(json::binary_t&) { reject("holds binary data"); }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) {
    fail(ErrorKind::corrupt, source_, ": the header is not valid JSON near byte ", position, " of it");
  }

 private:
  enum class Place { outside, file, metadata, tensor, shape, offsets };
  enum Field : unsigned { kNoField = 0, kDType = 1, kShape = 2, kOffsets = 4, kAllFields = 7 };

  bool open_entry(const std::string& name) {
    in_metadata_ = name == "__metadata__";
    if (!names_.insert(name).second)
      fail(ErrorKind::corrupt, source_, ": the header lists ", in_quotes(name), " twice");
    seen_ = 0;
    offsets_ = 0;
    if (!in_metadata_) entries_.emplace_back().name = name;
    return true;
  }
  void close_entry() const {
    if (!(seen_ & kDType)) reject("has no dtype");
    if (!(seen_ & kShape)) reject("has no shape");
    if (offsets_ != 2) reject("has no data_offsets [begin, end]");
  }
  template <class... Parts>
  [[noreturn]] void reject(const Parts&... parts) const {
    if (in_metadata_) fail(ErrorKind::corrupt, source_, ": header: __metadata__ ", parts...);
    if (entries_.empty()) fail(ErrorKind::corrupt, source_, ": the header ", parts...);
    fail(ErrorKind::corrupt, source_, ": header: tensor ", in_quotes(entries_.back().name), " ", parts...);
  }

  const std::string& source_;
  std::vector<Entry> entries_;
  std::unordered_set<std::string> names_;
  Place place_ = Place::outside;
  bool in_metadata_ = false;
  unsigned field_ = 0, seen_ = 0;  // Field: the one whose value comes next, those read
  int offsets_ = 0;
};

/// The JSON text of the header, its length checked.
std::string_view header_text(std::span<const std::byte> file, const std::string& source) {
  constexpr std::string_view kLfsPointer = "version https://git-lfs";
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with(kLfsPointer)) {
    fail(ErrorKind::corrupt, source,
         ": a Git LFS pointer, not the weights themselves; fetch them with git lfs pull");
  }
  uint64_t length = 0;
  if (file.size() < sizeof length) {
    fail(ErrorKind::corrupt, source, ": ", file.size(), " bytes are too few for a safetensors file");
  }
  for (std::size_t i = 0; i < sizeof length; ++i) length |= uint64_t(file[i]) << 8 * i;
  const uint64_t rest = file.size() - sizeof length;
  if (length > kMaxHeaderBytes) {
    fail(ErrorKind::corrupt, source, ": not a safetensors file: it claims a header of ", length,
         " bytes, the format allows ", kMaxHeaderBytes);
  }
  if (length > rest) {
    fail(ErrorKind::corrupt, source, ": the file is cut: its header has ", length, " bytes, only ", rest,
         " follow its length");
  }
  const std::string_view header = text.substr(sizeof length, length);
  // The JSON parser would skip a byte-order mark and take a NUL for the end.
  if (!header.starts_with('{')) fail(ErrorKind::corrupt, source, ": the header does not start with '{'");
  if (const std::size_t nul = header.find('\0'); nul != header.npos) {
    fail(ErrorKind::corrupt, source, ": the header is not valid JSON: byte ", nul, " of it is 0");
  }
  return header;
}

void check_size(const Entry& e, const std::string& source) {
  if (e.begin > e.end) {
    fail(ErrorKind::corrupt, source, ": tensor ", in_quotes(e.name), " ends at ", e.end,
         ", before its start ", e.begin);
  }
  const uint64_t element_bytes = size_bytes(dtype_named(e.dtype));
  if (element_bytes == 0) return;
  uint64_t bytes = element_bytes;
  for (const int64_t dimension : e.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(dimension), &bytes)) {
      fail(ErrorKind::corrupt, source, ": tensor ", in_quotes(e.name),
           " has an impossible shape: more than 2^64 bytes");
    }
  }
  if (bytes != e.end - e.begin) {
    fail(ErrorKind::corrupt, source, ": tensor ", in_quotes(e.name), " spans ", e.end - e.begin,
         " bytes, its shape and dtype ", e.dtype, " need ", bytes);
  }
}

/// `entries` in file order.
void check_layout(const std::vector<Entry>& entries, uint64_t data_bytes, const std::string& source) {
  for (const Entry& e : entries) {
    if (e.end > data_bytes) {
      fail(ErrorKind::corrupt, source, ": the file is cut or its header wrong: tensor ", in_quotes(e.name),
           " ends at byte ", e.end, " of the data, there are ", data_bytes, " (", e.end - data_bytes,
           " missing)");
    }
  }
  uint64_t end = 0;
  const Entry* previous = nullptr;
  for (const Entry& e : entries) {
    if (e.begin != end) {
      if (!previous) {
        fail(ErrorKind::corrupt, source, ": tensor ", in_quotes(e.name), " starts at byte ", e.begin,
             " of the data, but no tensor fills the bytes before it");
      }
      fail(ErrorKind::corrupt, source, ": tensor ", in_quotes(e.name), " starts at byte ", e.begin,
           " of the data, ", e.begin < end ? "inside" : "with a gap after", " tensor ",
           in_quotes(previous->name), ", which ends at ", end);
    }
    end = e.end;
    previous = &e;
  }
  if (end != data_bytes) {
    fail(ErrorKind::corrupt, source, ": ", data_bytes - end,
         " bytes follow the last tensor, which ends at byte ", end, " of the data");
  }
}

}  // namespace

std::size_t size_bytes(DType dtype) { return row(dtype).bytes; }
std::string_view name(DType dtype) { return row(dtype).name; }

std::vector<Tensor> parse_safetensors(std::span<const std::byte> file, const std::string& source) {
  const std::string_view header = header_text(file, source);
  HeaderReader reader(source);
  json::sax_parse(header.begin(), header.end(), &reader);
  std::vector<Entry> entries = reader.take();
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  const std::span<const std::byte> data = file.subspan(sizeof(uint64_t) + header.size());
  for (const Entry& e : entries) check_size(e, source);
  check_layout(entries, data.size(), source);

  std::vector<Tensor> tensors;
  tensors.reserve(entries.size());
  for (Entry& e : entries) {
    tensors.push_back({.name = std::move(e.name),
                       .dtype = dtype_named(e.dtype),
                       .shape = std::move(e.shape),
                       .bytes = data.subspan(e.begin, e.end - e.begin),
                       .file = 0,
                       .dtype_name = std::move(e.dtype)});
  }
  return tensors;
}

}  // namespace carat
