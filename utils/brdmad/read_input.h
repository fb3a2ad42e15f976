// brdmad/read_input.h - reads more of a client's connection, behind what was read of it and is not used yet.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <memory>
#include <string>

namespace brdma::daemon {

// Then calls `then(error, bytes)`, once; at the connection's end `error` is set. `owner` has both and lives until then.
template <class Owner, class Then>
void read_input(std::shared_ptr<Owner> owner, boost::asio::local::stream_protocol::socket& socket, std::string& input,
                std::size_t bytes_max, Then then) {
  const std::size_t had = input.size();
  input.resize(had + bytes_max);
  socket.async_read_some(
      boost::asio::buffer(input.data() + had, bytes_max),
      [owner = std::move(owner), &input, had, then](boost::system::error_code error, std::size_t bytes) {
        input.resize(had + bytes);
        then(error, bytes);
      });
}

}  // namespace brdma::daemon
