// A client that sends bytes as they are, also such as no HTTP library would, and what tests of a server on a
// socket need beside it.
#pragma once
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace carat {

class HttpClient {
 public:
  explicit HttpClient(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("can't connect");
  }
  ~HttpClient() { close(); }
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// False when the other side takes no more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
    return true;
  }

  /// Appends what comes to received(); false at the end of the connection or after `patience`.
  bool receive(std::chrono::milliseconds patience = std::chrono::seconds(20)) {
    pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return false;
    char buffer[1 << 16];
    const ssize_t count = ::recv(fd_, buffer, sizeof buffer, 0);
    if (count <= 0) return false;
    received_.append(buffer, static_cast<std::size_t>(count));
    return true;
  }
  /// Until `text` has come.
  bool receive_until(std::string_view text) {
    while (received_.find(text) == received_.npos)
      if (!receive()) return false;
    return true;
  }
  /// All until the connection ends.
  const std::string& receive_all() {
    while (receive()) {
    }
    return received_;
  }
  const std::string& received() const { return received_; }

  /// One reply with a content-length: head and body. Empty when the connection ends before.
  std::string receive_reply() {
    if (!receive_until("\r\n\r\n")) return {};
    const std::size_t head = received_.find("\r\n\r\n") + 4, field = received_.find("content-length: ");
    const std::size_t length = field < head ? std::strtoul(received_.c_str() + field + 16, nullptr, 10) : 0;
    while (received_.size() < head + length)
      if (!receive()) return {};
    std::string reply = received_.substr(0, head + length);
    received_.erase(0, head + length);
    return reply;
  }

  /// Closes with a reset instead of an orderly end.
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
  std::string received_;
};

/// What a client gets for `bytes` when it then waits for the end of the connection.
inline std::string reply_to(int port, std::string_view bytes) {
  HttpClient client(port);
  client.send(bytes);
  return client.receive_all();
}

inline std::string reply_to_get(int port, const std::string& target, const std::string& headers = "") {
  return reply_to(
      port, "GET " + target + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n" + headers + "\r\n");
}

}  // namespace carat
