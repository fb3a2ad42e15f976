#include "lab/processes/client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "lab/processes/channel.h"

namespace brdma::lab {
namespace {

using Json = nlohmann::ordered_json;

io::FileDescriptor connect_to(const std::string& lab, const std::string& socket, int type) {
  try {
    return connect_abstract(socket, type);
  } catch (const std::system_error& error) {
    if (error.code().value() != ECONNREFUSED) throw LabError(error.what());
    throw LabError("no lab '" + lab + "' is up: start one with 'brdma lab up" + (lab == "lab" ? "" : " --name " + lab) +
                   "' (labs belong to one user and one network namespace)");
  }
}

Json checked(const std::string& text) {
  Json reply = Json::parse(text, nullptr, false);
  if (!reply.is_object()) throw LabError("the lab ended instead of answering");
  if (!reply.value("ok", false)) throw LabError(reply.value("error", "the lab refused"));
  return reply;
}

struct Answer {
  Json json;
  std::vector<io::FileDescriptor> descriptors;
  io::FileDescriptor connection;
};

Answer ask_keeper(const std::string& lab, const Json& request) {
  io::FileDescriptor connection = connect_to(lab, keeper_socket_name(lab), SOCK_SEQPACKET);
  try {
    send_message(connection.get(), request.dump());
    ChannelMessage reply = receive_message(connection.get());
    return {checked(reply.text), std::move(reply.descriptors), std::move(connection)};
  } catch (const std::system_error& error) {
    throw LabError(error.what());
  }
}

std::string exchange_line(int connection, const std::string& line) {
  std::string reply;
  std::array<char, 16'384> bytes{};
  if (::send(connection, line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size())) return {};
  while (reply.empty() || reply.back() != '\n') {
    const ssize_t size = ::recv(connection, bytes.data(), bytes.size(), 0);
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) break;
    reply.append(bytes.data(), static_cast<std::size_t>(size));
  }
  return reply;
}

void require_switch(const std::string& lab) {
  const Json description = describe_lab(lab);
  if (description.value("switch", false)) return;
  const std::string error = description.value("switch_error", "");
  if (!error.empty()) throw LabError(error);
  throw LabError("lab '" + lab +
                 "' has no switch: its hosts are joined directly. Start it with a network option, for " +
                 "example 'brdma lab up --loss 0'");
}

}  // namespace

Json describe_lab(const std::string& lab) { return ask_keeper(lab, {{"command", "describe"}}).json; }

HostNamespaces open_host(const std::string& lab, const std::string& host) {
  Answer answer = ask_keeper(lab, {{"command", "enter"}, {"host", host}});
  const bool with_user = answer.json.value("user_namespace", false);
  if (answer.descriptors.size() != (with_user ? 5u : 4u)) throw LabError("the lab gave no access to " + host);
  HostNamespaces namespaces;
  std::size_t i = 0;
  if (with_user) namespaces.user = std::move(answer.descriptors[i++]);
  namespaces.pid = std::move(answer.descriptors[i++]);
  namespaces.mount = std::move(answer.descriptors[i++]);
  namespaces.uts = std::move(answer.descriptors[i++]);
  namespaces.net = std::move(answer.descriptors[i++]);
  namespaces.paths = answer.json.value("paths", 1u);
  namespaces.port_rate_mbps = answer.json.value("port_rate_mbps", 0u);
  namespaces.name = answer.json.value("host", host);
  namespaces.lab = lab;
  namespaces.controller = answer.json.value("controller", "");
  namespaces.controller_key = answer.json.value("controller_key", "");
  return namespaces;
}

void take_down(const std::string& lab) {
  const Answer answer = ask_keeper(lab, {{"command", "down"}});
  // The keeper holds the listening socket until it ends, which is when all others in its PID namespace are gone.
  for (;;) {
    try {
      const auto probe = connect_abstract(keeper_socket_name(lab), SOCK_SEQPACKET);
      pollfd gone{probe.get(), POLLIN, 0};  // closed with the listener
      poll(&gone, 1, -1);
    } catch (const std::system_error& error) {
      if (error.code().value() == EINTR) continue;
      return;
    }
  }
}

Json ask_switch(const std::string& lab, const Json& request) {
  require_switch(lab);
  std::string reply;
  try {
    reply = exchange_line(connect_abstract(switch_socket_name(lab), SOCK_STREAM).get(), request.dump() + "\n");
  } catch (const std::system_error&) {
    // It has just ended: the keeper knows the reason.
  }
  if (reply.empty()) require_switch(lab);
  return checked(reply);
}

Json show_switch(const std::string& lab) { return ask_switch(lab, {{"command", "show"}}); }

Json set_switch(const std::string& lab, const NetworkOptions& options) {
  return ask_switch(lab, {{"command", "set"}, {"options", options}});
}

}  // namespace brdma::lab
