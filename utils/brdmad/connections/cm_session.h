// brdmad/connections/cm_session.h - the connection of a process that uses RDMA-CM (io/cm/cm_protocol.h).
#pragma once

#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "connections/management_port.h"
#include "io/cm/cm_protocol.h"
#include "worker/client_reader.h"

namespace brdma::daemon {

namespace asio = boost::asio;

class CmSession : public std::enable_shared_from_this<CmSession> {
 public:
  using Socket = asio::local::stream_protocol::socket;
  // `input`: bytes read from the connection already. `ended` is called once, from a handler of the session.
  CmSession(Socket socket, std::uint32_t uid, std::uint32_t pid, std::string input, ManagementPort& port,
            UserAccounts& accounts, std::function<void(CmSession*)> ended);
  void start();
  [[nodiscard]] std::uint32_t uid() const { return uid_; }

 private:
  void read_more();
  void take_input();
  bool take_hello();
  void take_frame(const io::CmFrame& frame);
  [[nodiscard]] io::CmFrame answer(const io::CmFrame& question);
  [[nodiscard]] bool write(const io::CmFrame& frame);
  void end();

  Socket socket_;
  std::uint32_t uid_, pid_;
  ClientReader reader_;
  ManagementPort& port_;
  std::function<void(CmSession*)> ended_;
  std::uint16_t prefix_ = 0;  // 0: no hello yet
};

}  // namespace brdma::daemon
