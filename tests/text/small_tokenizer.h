// Small tokenizer.json documents with Gemma's pipeline, for the tests of text/.
#pragma once
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "text/byte_piece.h"
#include "text/tokenizer.h"

namespace carat {

/// Ids: 0 <unk>, 1 <bos>, 2 .. 257 the bytes, then `pieces`. The first two are special added tokens.
inline nlohmann::json small_tokenizer_json(const std::vector<std::string>& pieces,
                                           const std::vector<std::pair<std::string, std::string>>& merges) {
  nlohmann::json vocab = {{"<unk>", 0}, {"<bos>", 1}};
  for (int byte = 0; byte < 256; ++byte) vocab[byte_piece(byte)] = byte + 2;
  for (const std::string& piece : pieces) vocab[piece] = vocab.size();
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [left, right] : merges) list.push_back({left, right});
  return {{"added_tokens",
           {{{"id", 0}, {"content", "<unk>"}, {"special", true}},
            {{"id", 1}, {"content", "<bos>"}, {"special", true}}}},
          {"normalizer", {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "▁"}}},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "Sequence"},
            {"decoders",
             {{{"type", "Replace"}, {"pattern", {{"String", "▁"}}}, {"content", " "}},
              {{"type", "ByteFallback"}},
              {{"type", "Fuse"}}}}}},
          {"model",
           {{"type", "BPE"},
            {"unk_token", "<unk>"},
            {"fuse_unk", true},
            {"byte_fallback", true},
            {"vocab", vocab},
            {"merges", list}}}};
}

inline std::shared_ptr<const Tokenizer> parse_tokenizer(const nlohmann::json& document) {
  return Tokenizer::parse(document.dump(), "tokenizer.json");
}

inline std::filesystem::path source_path(const std::string& relative) {
  return std::filesystem::path(CARAT_SOURCE_DIR) / relative;
}

inline nlohmann::json read_golden(const std::string& name) {
  std::ifstream file(source_path("tests/data/" + name));
  return nlohmann::json::parse(file);
}

inline std::shared_ptr<const Tokenizer> demo_tokenizer() {
  static const auto tokenizer = Tokenizer::load(source_path("models/demo/tokenizer.json"));
  return tokenizer;
}

}  // namespace carat
