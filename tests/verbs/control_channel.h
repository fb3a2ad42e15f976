// control_channel.h - the TCP connection over which two verbs programs exchange their queue pairs and synchronize.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

class ControlChannel {
 public:
  // Empty address: listens for one client. Else connects, trying for some seconds. Throws std::runtime_error.
  ControlChannel(const std::string& address, std::uint16_t port);
  ~ControlChannel();
  ControlChannel(const ControlChannel&) = delete;
  ControlChannel& operator=(const ControlChannel&) = delete;

  template <class T>
  T exchange(const T& mine) {
    T theirs;
    write_all(&mine, sizeof mine);
    read_all(&theirs, sizeof theirs);
    return theirs;
  }
  // Both sides have arrived, and named the same step.
  void meet(std::uint32_t step);

 private:
  void write_all(const void* data, std::size_t size);
  void read_all(void* data, std::size_t size);
  int fd_ = -1;
};
