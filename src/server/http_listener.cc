#include "server/http_listener.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/utf8.h"

namespace carat {
namespace {

constexpr int kBacklog = 1024;
constexpr int kSocket = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

/// Whether a server accepts connections at this path.
bool is_served(const sockaddr_un& address) {
  const int fd = ::socket(AF_UNIX, kSocket, 0);
  const bool served =
      fd >= 0 &&
      (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN);
  ::close(fd);
  return served;
}

std::string numeric(const sockaddr* address, socklen_t length, int& port) {
  char host[NI_MAXHOST], service[NI_MAXSERV];
  if (::getnameinfo(address, length, host, sizeof host, service, sizeof service,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  port = std::atoi(service);
  const std::string name = host;
  return (name.find(':') == name.npos ? name : "[" + name + "]") + ":" + service;
}

}  // namespace

HttpListener::HttpListener(const std::string& host, int port) {
  if (host.starts_with("unix:")) {
    listen_on_path(host.substr(5));
  } else {
    listen_on_host(host, port);
  }
}

HttpListener::~HttpListener() {
  if (fd_ >= 0) ::close(fd_);
  if (!path_.empty()) ::unlink(path_.c_str());
}

int HttpListener::release() { return std::exchange(fd_, -1); }

void HttpListener::listen_on_path(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    fail(ErrorKind::invalid_argument, "unix:", printable(path), ": a socket's path has 1 to ",
         sizeof address.sun_path - 1, " bytes");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) {
    if (!S_ISSOCK(info.st_mode))
      fail(ErrorKind::unavailable, "unix:", printable(path), ": there is a file that is no socket");
    if (is_served(address))
      fail(ErrorKind::unavailable, "unix:", printable(path), ": another server listens there");
    ::unlink(path.c_str());
  }
  family_ = AF_UNIX;
  fd_ = ::socket(family_, kSocket, 0);
  if (fd_ < 0 || ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd_, kBacklog) != 0) {
    const int error = errno;
    if (fd_ >= 0) ::close(fd_);
    fail(ErrorKind::unavailable, "can't listen on unix:", printable(path), ": ", std::strerror(error));
  }
  path_ = path;
  name_ = "unix:" + path;
}

void HttpListener::listen_on_host(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0)
    fail(ErrorKind::invalid_argument, "host ", in_quotes(host, 60), ": ", ::gai_strerror(error));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  family_ = found->ai_family;
  fd_ = ::socket(family_, kSocket, 0);
  const int on = 1;
  if (fd_ < 0 || ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(fd_, found->ai_addr, found->ai_addrlen) != 0 || ::listen(fd_, kBacklog) != 0) {
    const int number = errno;
    if (fd_ >= 0) ::close(fd_);
    fail(ErrorKind::unavailable, "can't listen on ", host, " port ", port, ": ", std::strerror(number),
         number == EADDRINUSE ? "; choose another --port" : "");
  }
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  ::getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &length);
  name_ = numeric(reinterpret_cast<const sockaddr*>(&bound), length, port_);
}

}  // namespace carat
