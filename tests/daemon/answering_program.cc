#include "answering_program.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "system_daemon.h"

namespace brdma::test {

int answer_once_each(const std::string& program, const std::string& answer, const Gate& leased) {
  DeviceInfo device = loopback_device();
  program_invocation_short_name = const_cast<char*>(program.c_str());
  const auto lease = io::acquire_lease(device);
  if (!lease) return 1;
  (void)!::write(leased.signal_end.get(), "x", 1);
  for (;;) {
    std::array<char, 4096> question{};
    if (!wait_for_event(lease.value().control_fd, POLLIN)) return 2;
    if (::recv(lease.value().control_fd, question.data(), question.size() - 1, 0) <= 0) return 0;
    const char* const id = std::strstr(question.data(), "\"id\":");
    if (id == nullptr) continue;
    if (answer.empty()) return 0;
    std::string said = answer;
    said.replace(said.find('%'), 1, std::to_string(std::strtoull(id + 5, nullptr, 10)));
    if (contains(question.data(), "\"keys\":true")) said.replace(said.find("no key"), 6, "a key!");
    (void)!::send(lease.value().control_fd, said.data(), said.size(), MSG_NOSIGNAL);
  }
}

Said run_brdma(uid_t uid, const std::string& words) {
  Said said;
  Gate output;
  Child brdma([&] {
    ::dup2(output.signal_end.get(), STDOUT_FILENO);
    ::dup2(output.signal_end.get(), STDERR_FILENO);
    if (uid != 0 && !become(uid)) return 100;
    ::execl("/bin/sh", "sh", "-c", (std::string("exec " BRDMA_PATH " ") + words).c_str(), nullptr);
    return 127;
  });
  output.open();
  std::array<char, 4096> bytes{};
  for (ssize_t got = 0; (got = ::read(output.wait_end.get(), bytes.data(), bytes.size())) > 0;)
    said.text.append(bytes.data(), static_cast<std::size_t>(got));
  said.code = brdma.join();
  return said;
}

void wait_for_lease(const Gate& leased) {
  char byte = 0;
  ASSERT_TRUE(leased.wait());
  ASSERT_EQ(::read(leased.wait_end.get(), &byte, 1), 1);
}

}  // namespace brdma::test
