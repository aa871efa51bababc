#include "server/reply_id.h"

#include <random>

namespace carat {

std::string random_id(std::string_view prefix) {
  static constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  constexpr int kLength = 24;
  static thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  std::uniform_int_distribution<std::size_t> digit(0, kDigits.size() - 1);
  std::string id(prefix);
  for (int i = 0; i < kLength; ++i) id += kDigits[digit(random)];
  return id;
}

}  // namespace carat
