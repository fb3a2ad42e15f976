// lab/processes/channel.h - short messages between a lab's keeper and its clients: one JSON text each way over a
// sequenced-packet Unix socket, with descriptors attached. Abstract names: they vanish with the keeper. Errors:
// std::system_error.
#pragma once

#include <string>
#include <vector>

#include "io/system/file_descriptor.h"
#include "io/system/pass_descriptors.h"

namespace brdma::lab {

struct ChannelMessage {
  std::string text;  // empty: the other side has closed
  std::vector<io::FileDescriptor> descriptors;
};

inline constexpr std::size_t kChannelTextMax = 64 * 1024;
inline constexpr std::size_t kChannelDescriptorsMax = io::kPassedDescriptorsMax;

// "brdma-lab/UID/NAME", and for the switch's own control socket that with "/switch" behind it.
[[nodiscard]] std::string keeper_socket_name(const std::string& lab);
[[nodiscard]] std::string switch_socket_name(const std::string& lab);

// `type`: SOCK_SEQPACKET or SOCK_STREAM. EADDRINUSE: another process listens there.
[[nodiscard]] io::FileDescriptor listen_abstract(const std::string& name, int type);
// ECONNREFUSED: nobody listens there. EACCES: the listener is neither this user nor root.
[[nodiscard]] io::FileDescriptor connect_abstract(const std::string& name, int type);
[[nodiscard]] bool peer_is_own_user(int socket);

void send_message(int socket, const std::string& text, const std::vector<int>& descriptors = {});
[[nodiscard]] ChannelMessage receive_message(int socket);

}  // namespace brdma::lab
