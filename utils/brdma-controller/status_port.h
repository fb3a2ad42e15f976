// brdma-controller/status_port.h - answers queries for the controller's state.
//   control socket   a Unix stream socket, JSON, one object a line each way; answers only this user and root
//     {"command":"show"}    -> {"ok":true,"switches":[...],...}   (report.h)
//     {"command":"stop"}    -> {"ok":true}, then the controller ends
//   metrics          HTTP on TCP: GET /metrics gives Prometheus' text
#pragma once

#include <boost/asio/io_context.hpp>
#include <string>

#include "server.h"

namespace brdma::controller_program {

// `listener`: a listening Unix stream socket, taken over.
void serve_control(asio::io_context& context, int listener, const Server& server);
// "ADDRESS:PORT". Throws std::invalid_argument, boost::system::system_error.
void serve_metrics(asio::io_context& context, const std::string& endpoint, const Server& server);

}  // namespace brdma::controller_program
