// Expectations about carat::Error: its kind, and a message of one line that names the things a user needs.
#pragma once
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace carat {

/// Calls `action`, which must throw Error of `kind` with every one of `parts` in its message.
template <class Action>
void expect_error(ErrorKind kind, const std::vector<std::string_view>& parts, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    for (const std::string_view part : parts) {
      EXPECT_NE(message.find(part), message.npos) << "no \"" << part << "\" in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown" << (parts.empty() ? "" : ", expected: ")
                << (parts.empty() ? "" : parts.front());
}

}  // namespace carat
