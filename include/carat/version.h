// Which Carat this is.
#pragma once

namespace carat {
inline namespace v1 {

/// Of the library that is linked: "0.1.0". Versions follow https://semver.org.
const char* version() noexcept;

}  // namespace v1
}  // namespace carat
