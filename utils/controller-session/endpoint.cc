#include "controller-session/endpoint.h"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <charconv>
#include <stdexcept>

namespace brdma::session {

Protocol::endpoint parse_endpoint(const std::string& text) {
  namespace asio = boost::asio;
  const std::invalid_argument wrong("'" + text + "': expected ADDRESS:PORT, [ADDRESS]:PORT, unix:PATH or unix:@NAME");
  if (text.starts_with("unix:")) {
    std::string path = text.substr(5);
    if (path.size() < 2 || path.size() > 100) throw wrong;
    if (path[0] == '@') path[0] = '\0';
    return asio::local::stream_protocol::endpoint(path);
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) throw wrong;
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  unsigned short port = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + colon + 1, end, port);
  boost::system::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error || read.ec != std::errc{} || read.ptr != end || port == 0) throw wrong;
  return asio::ip::tcp::endpoint(address, port);
}

}  // namespace brdma::session
