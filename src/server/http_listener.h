// The socket on which a server waits for connections: an address with a port, or a path.
#pragma once
#include <string>

namespace carat {

class HttpListener {
 public:
  /// `host`: an address or name, or "unix:/path", for which a socket that nobody listens on is replaced.
  /// `port` 0: one that is free. Throws Error{invalid_argument} for an unknown host or an impossible path,
  /// Error{unavailable} when others listen there.
  HttpListener(const std::string& host, int port);
  /// Closes what release() has not handed out, and removes the path of a unix socket.
  ~HttpListener();
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  /// The descriptor; its owner closes it.
  int release();
  int family() const { return family_; }
  int port() const { return port_; }  // 0 for a path
  /// "127.0.0.1:8080", "[::1]:8080" or "unix:/path".
  const std::string& name() const { return name_; }

 private:
  void listen_on_path(const std::string& path);
  void listen_on_host(const std::string& host, int port);

  int fd_ = -1, family_ = 0, port_ = 0;
  std::string name_, path_;
};

}  // namespace carat
