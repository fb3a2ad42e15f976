// An ordinary TCP program, without any RDMA: sends 300,000 bytes there and back and compares. Under librspreload its
// connections become rsockets.    tcp_echo PORT (server) | tcp_echo PORT ADDRESS (client)
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr std::size_t kBytes = 300'000;

int fail(const char* what) {
  std::perror(what);
  return 1;
}

bool send_all(int fd, const std::vector<char>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t sent = send(fd, bytes.data() + done, bytes.size() - done, 0);
    if (sent <= 0) return false;
    done += static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, std::vector<char>& bytes) {
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t got = recv(fd, bytes.data() + done, bytes.size() - done, 0);
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

int serve(int fd, const sockaddr_in& address) {
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return fail("bind");
  if (listen(fd, 4) != 0) return fail("listen");
  const int connection = accept(fd, nullptr, nullptr);
  if (connection < 0) return fail("accept");
  std::vector<char> bytes(kBytes);
  if (!receive_all(connection, bytes)) return fail("recv");
  if (!send_all(connection, bytes)) return fail("send");
  char end = 0;
  (void)!recv(connection, &end, 1, 0);  // until the client has closed
  close(connection);
  return 0;
}

int ask(int fd, const sockaddr_in& address) {
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return fail("connect");
  std::vector<char> bytes(kBytes), back(kBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  if (!send_all(fd, bytes)) return fail("send");
  if (!receive_all(fd, back)) return fail("recv");
  shutdown(fd, SHUT_RDWR);
  close(fd);
  if (bytes == back) return 0;
  std::fprintf(stderr, "other bytes came back\n");
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[1])));
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0) return fail("socket");
  if (argc == 2) return serve(fd, address);
  if (inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return 2;
  return ask(fd, address);
}
