// Commands that no librdmacm would write to RDMA-CM's node: each is refused with the kernel's errno value, and changes
// nothing. Once with a table of all commands, then one mistake at a time.
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "rdma_cm/commands.h"

namespace {

using namespace brdma::provider::ucma;  // the test uses the protocol
using Bytes = std::vector<std::byte>;

constexpr char kNode[] = "/dev/infiniband/rdma_cm";
constexpr std::size_t kNone = ~std::size_t{0};

struct Shape {
  Command command;
  std::size_t bytes, id_at, response_at, answer;  // `answer`: the smallest room for the reply
};
constexpr Shape kShapes[] = {
    {Command::kCreateId, sizeof(CreateId), kNone, offsetof(CreateId, response), 4},
    {Command::kDestroyId, sizeof(Id), offsetof(Id, id), 0, 4},
    {Command::kBindIp, sizeof(BindIp), offsetof(BindIp, id), kNone, 0},
    {Command::kResolveIp, sizeof(ResolveIp), offsetof(ResolveIp, id), kNone, 0},
    {Command::kResolveRoute, sizeof(ResolveRoute), 0, kNone, 0},
    {Command::kQueryRoute, sizeof(Id), offsetof(Id, id), 0, 200},
    {Command::kConnect, sizeof(Connect), offsetof(Connect, id), kNone, 0},
    {Command::kListen, sizeof(Listen), 0, kNone, 0},
    {Command::kAccept, sizeof(Accept), offsetof(Accept, id), kNone, 0},
    {Command::kReject, sizeof(Reject), 0, kNone, 0},
    {Command::kDisconnect, sizeof(Disconnect), 0, kNone, 0},
    {Command::kInitQpAttr, sizeof(InitQpAttr), offsetof(InitQpAttr, id), 0, 144},
    {Command::kGetEvent, sizeof(GetEvent), kNone, 0, 324},
    {Command::kSetOption, sizeof(SetOption), offsetof(SetOption, id), kNone, 0},
    {Command::kNotify, sizeof(Notify), 0, kNone, 0},
    {Command::kJoinIpMulticast, sizeof(JoinIpMulticast), offsetof(JoinIpMulticast, id), 0, 4},
    {Command::kLeaveMulticast, sizeof(Id), offsetof(Id, id), 0, 4},
    {Command::kMigrateId, sizeof(MigrateId), offsetof(MigrateId, id), 0, 4},
    {Command::kWriteEvent, sizeof(WriteEvent), offsetof(WriteEvent, id), kNone, 0},
};

template <class T>
Bytes bytes_of(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  Bytes bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

SockAddr loopback(std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  SockAddr address{};
  std::memcpy(address.data(), &v4, sizeof v4);
  return address;
}

std::uint64_t address_of(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

class Node {
 public:
  Node() : fd_(::open(kNode, O_RDWR | O_CLOEXEC)) { EXPECT_EQ(::fcntl(fd_, F_SETFL, O_NONBLOCK), 0); }
  ~Node() { ::close(fd_); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

  // errno of a command with this payload; 0: accepted.
  [[nodiscard]] int write(std::uint32_t command, const Bytes& payload, std::size_t out = 0) const {
    const Header header{command, static_cast<std::uint16_t>(payload.size()), static_cast<std::uint16_t>(out)};
    Bytes bytes = bytes_of(header);
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return write_raw(bytes.data(), bytes.size());
  }
  template <class T>
  [[nodiscard]] int write(Command command, const T& payload, std::size_t out = 0) const {
    return write(static_cast<std::uint32_t>(command), bytes_of(payload), out);
  }
  [[nodiscard]] int write_raw(const void* bytes, std::size_t count) const {
    const ssize_t written = ::write(fd_, bytes, count);
    if (written < 0) return errno;
    EXPECT_EQ(written, static_cast<ssize_t>(count));
    return 0;
  }
  // Takes an identifier; its number.
  [[nodiscard]] std::uint32_t create(std::uint16_t port_space = kPortSpaceTcp) const {
    std::uint32_t id = ~0u;
    const CreateId command{
        .uid = 7, .response = address_of(&id), .port_space = port_space, .qp_type = 2, .reserved = {}};
    EXPECT_EQ(write(Command::kCreateId, command, sizeof id), 0);
    return id;
  }
  [[nodiscard]] int destroy(std::uint32_t id) const {
    std::uint32_t events = 0;
    return write(Command::kDestroyId, Id{address_of(&events), id, 0}, sizeof events);
  }
  // The type of the next event, which is fetched; -1: none.
  [[nodiscard]] int event(EventAnswer* whole = nullptr) const {
    EventAnswer answer{};
    pollfd readable{fd_, POLLIN, 0};
    if (::poll(&readable, 1, 20'000) != 1) return -1;
    if (write(Command::kGetEvent, GetEvent{address_of(&answer)}, sizeof answer) != 0) return -1;
    if (whole != nullptr) *whole = answer;
    return static_cast<int>(answer.event);
  }

 private:
  int fd_;
};

// Two pages of which only the first is there, and one that may be read alone.
class Pages {
 public:
  Pages() : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))) {
    memory_ =
        static_cast<std::byte*>(::mmap(nullptr, 3 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ::mprotect(memory_ + page_, page_, PROT_NONE);
    ::mprotect(memory_ + 2 * page_, page_, PROT_READ);
  }
  ~Pages() { ::munmap(memory_, 3 * page_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  // Invalid addresses for an answer: null, not mapped, not writable, partly mapped.
  [[nodiscard]] std::vector<std::uint64_t> bad_for_answers() const {
    return {0,
            8,
            address_of(memory_ + page_),
            address_of(memory_ + 2 * page_),
            address_of(memory_ + page_ - 2),
            0xFFFF'FFFF'FFFF'0000,
            0x8000'0000'0000'0000};
  }
  // The last `bytes` before unmapped memory.
  [[nodiscard]] std::byte* end(std::size_t bytes) const { return memory_ + page_ - bytes; }

 private:
  std::size_t page_;
  std::byte* memory_;
};

// A payload whose answer, if it has one, could be written.
Bytes payload_of(const Shape& shape, std::uint32_t id, std::uint64_t response) {
  Bytes payload(shape.bytes);
  if (shape.command == Command::kCreateId) payload[16] = std::byte{0x06}, payload[17] = std::byte{0x01};
  if (shape.command == Command::kBindIp) payload = bytes_of(BindIp{0, loopback(0), 0});
  if (shape.command == Command::kResolveIp) payload = bytes_of(ResolveIp{{}, loopback(7), 0, 1000});
  if (shape.command == Command::kJoinIpMulticast) payload = bytes_of(JoinIpMulticast{0, 0, loopback(0), 0});
  if (shape.command == Command::kConnect)
    payload[offsetof(Connect, parameters) + offsetof(ConnParam, valid)] = std::byte{1};
  if (shape.command == Command::kWriteEvent) payload = bytes_of(WriteEvent{0, 0, kEventUser, 0, 0});
  if (shape.id_at != kNone) std::memcpy(payload.data() + shape.id_at, &id, sizeof id);
  if (shape.response_at != kNone) std::memcpy(payload.data() + shape.response_at, &response, sizeof response);
  return payload;
}

TEST(HostileUcma, ShortWrites) {
  const Node node;
  ASSERT_GE(node.fd(), 0) << std::strerror(errno);
  std::array<std::byte, 512> room{};
  for (std::size_t count = 0; count < sizeof(Header); ++count) EXPECT_EQ(node.write_raw(room.data(), count), EINVAL);
  for (const Shape& shape : kShapes) {
    const auto number = static_cast<std::uint32_t>(shape.command);
    const Bytes payload = payload_of(shape, 60'000, address_of(room.data()));
    for (std::size_t size = 0; size < shape.bytes; ++size) {
      const int error = node.write(number, {payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(size)}, 400);
      // Trailing fields that older libraries lack may be missing: then the identifier, or the event, is invalid.
      EXPECT_TRUE(error == EINVAL || (size + 16 >= shape.bytes && (error == ENOENT || shape.id_at == kNone)))
          << number << " of " << size << " bytes: " << error;
    }
    // More bytes announced than written.
    const Header header{number, static_cast<std::uint16_t>(shape.bytes), 400};
    EXPECT_EQ(node.write_raw(&header, sizeof header), EINVAL) << number;
  }
}

TEST(HostileUcma, LongWritesAreTakenUpToTheirEnd) {
  const Node node;
  std::uint32_t id = ~0u;
  Bytes bytes = bytes_of(Header{0, sizeof(CreateId), sizeof id});
  const Bytes command = bytes_of(CreateId{7, address_of(&id), kPortSpaceTcp, 2, {}});
  bytes.insert(bytes.end(), command.begin(), command.end());
  bytes.resize(100'000);
  EXPECT_EQ(node.write_raw(bytes.data(), bytes.size()), 0);
  EXPECT_EQ(node.destroy(id), 0);
}

TEST(HostileUcma, CommandsThatAreNotThere) {
  const Node node;
  for (const std::uint32_t command : {25u, 255u, 0x8000'0000u, 0xFFFF'FFFFu}) {
    EXPECT_EQ(node.write(command, Bytes(296)), EINVAL) << command;
  }
  for (const std::uint32_t command : {13u, 19u, 23u}) EXPECT_EQ(node.write(command, Bytes(296)), ENOSYS) << command;
}

TEST(HostileUcma, IdentifiersOfNobodyAndOfAnotherChannel) {
  const Node node, other;
  const std::uint32_t theirs = other.create();
  std::array<std::byte, 512> room{};
  for (const Shape& shape : kShapes) {
    if (shape.id_at == kNone) continue;
    const auto number = static_cast<std::uint32_t>(shape.command);
    Bytes payload = payload_of(shape, 60'000, address_of(room.data()));
    if (shape.command == Command::kMigrateId) {
      const auto fd = static_cast<std::uint32_t>(node.fd());
      std::memcpy(payload.data() + offsetof(MigrateId, fd), &fd, sizeof fd);
    }
    EXPECT_EQ(node.write(number, payload, 400), ENOENT) << number;
    std::memcpy(payload.data() + shape.id_at, &theirs, sizeof theirs);
    const bool of_membership = shape.command == Command::kLeaveMulticast;
    EXPECT_EQ(node.write(number, payload, 400), of_membership ? ENOENT : EINVAL) << number;
  }
  EXPECT_EQ(other.destroy(theirs), 0) << "still there";
}

TEST(HostileUcma, NoRoomForTheAnswer) {
  const Node node;
  const std::uint32_t id = node.create();
  std::array<std::byte, 512> room{};
  for (const Shape& shape : kShapes) {
    if (shape.response_at == kNone) continue;
    const auto number = static_cast<std::uint32_t>(shape.command);
    EXPECT_EQ(node.write(number, payload_of(shape, id, address_of(room.data())), shape.answer - 1), ENOSPC) << number;
  }
  EXPECT_EQ(node.destroy(id), 0);
}

// The answer's address is invalid: the command was not executed, so nothing has changed.
TEST(HostileUcma, AnswersThatCannotBeWritten) {
  const Node node, other;
  const Pages pages;
  const std::uint32_t id = node.create();
  ASSERT_EQ(node.write(Command::kResolveIp, ResolveIp{{}, loopback(7), id, 1000}), 0);
  for (const std::uint64_t bad : pages.bad_for_answers()) {
    for (const Shape& shape : kShapes) {
      if (shape.response_at == kNone) continue;
      const auto number = static_cast<std::uint32_t>(shape.command);
      EXPECT_EQ(node.write(number, payload_of(shape, id, bad), 400), EFAULT) << number << " to " << std::hex << bad;
    }
  }
  EXPECT_EQ(node.event(), 0) << "the event is still to be had";
  const std::uint32_t next = node.create();
  EXPECT_EQ(next, id + 1) << "none was made that nobody knows";
  EXPECT_EQ(node.destroy(next), 0);
  EXPECT_EQ(node.destroy(id), 0);
}

TEST(HostileUcma, CommandsThatCannotBeRead) {
  const Node node;
  const Pages pages;
  EXPECT_EQ(node.write_raw(nullptr, 16), EFAULT);
  EXPECT_EQ(node.write_raw(reinterpret_cast<const void*>(8), 32), EFAULT);
  // A command that begins in mapped memory and ends in unmapped memory.
  const Header header{static_cast<std::uint32_t>(Command::kConnect), sizeof(Connect), 0};
  std::memcpy(pages.end(64), &header, sizeof header);
  EXPECT_EQ(node.write_raw(pages.end(64), sizeof header + sizeof(Connect)), EFAULT);
  const std::uint32_t id = node.create();
  for (const std::uint64_t bad : {std::uint64_t{0}, std::uint64_t{8}, address_of(pages.end(2))}) {
    EXPECT_EQ(node.write(Command::kSetOption, SetOption{bad, id, kLevelId, kOptionReuseAddress, 4}), EFAULT);
  }
  EXPECT_EQ(node.destroy(id), 0);
}

TEST(HostileUcma, FieldsThatCannotBe) {
  const Node node;
  const std::uint32_t id = node.create();
  SockAddr nonsense{};
  nonsense[0] = std::byte{77};
  EXPECT_EQ(node.write(Command::kBindIp, BindIp{0, nonsense, id}), EINVAL);
  EXPECT_EQ(node.write(Command::kBindIp, BindIp{0, {}, id}), EINVAL);
  EXPECT_EQ(node.write(Command::kResolveIp, ResolveIp{nonsense, loopback(7), id, 1000}), EINVAL);
  EXPECT_EQ(node.write(Command::kResolveIp, ResolveIp{{}, nonsense, id, 1000}), EINVAL);
  std::uint32_t answer = 0;
  const auto join = JoinIpMulticast{address_of(&answer), 0, nonsense, id};
  EXPECT_EQ(node.write(Command::kJoinIpMulticast, join, sizeof answer), EINVAL);
  const auto create = [&](std::uint16_t space) {
    return node.write(Command::kCreateId, CreateId{0, address_of(&answer), space, 2, {}}, sizeof answer);
  };
  EXPECT_EQ(create(0), EINVAL);
  EXPECT_EQ(create(0xFFFF), EINVAL);
  std::array<std::byte, sizeof(InitQpAttrAnswer)> attributes{};
  const InitQpAttr init{address_of(attributes.data()), id, 7};
  EXPECT_EQ(node.write(Command::kInitQpAttr, init, attributes.size()), EINVAL);
  EXPECT_EQ(node.write(Command::kNotify, Notify{id, 6}), EINVAL);
  for (const std::uint32_t event : {0u, 9u, 17u, 20u, 18u + 256, 0xFFFF'FFFFu}) {
    EXPECT_EQ(node.write(Command::kWriteEvent, WriteEvent{id, 0, event, 0, 0}), EINVAL) << event;
  }
  const std::uint32_t value = 1;
  const auto option = [&](std::uint32_t level, std::uint32_t name, std::uint32_t length) {
    return node.write(Command::kSetOption, SetOption{address_of(&value), id, level, name, length});
  };
  EXPECT_EQ(option(kLevelId, kOptionTos, 4), EINVAL);
  EXPECT_EQ(option(kLevelId, kOptionReuseAddress, 1), EINVAL);
  EXPECT_EQ(option(kLevelId, kOptionReuseAddress, 0xFFFF'FFFF), EINVAL);
  EXPECT_EQ(option(kLevelId, 4, 4), ENOSYS);
  EXPECT_EQ(option(kLevelIb, 1, 71), EINVAL);
  EXPECT_EQ(option(2, 0, 4), ENOSYS);
  EXPECT_EQ(node.write(Command::kMigrateId, MigrateId{address_of(&answer), id, 0xFFFF'FFFF}, sizeof answer), ENOENT);
  EXPECT_EQ(node.write(Command::kMigrateId, MigrateId{address_of(&answer), id, 0}, sizeof answer), EINVAL)
      << "standard input is no channel";
  EXPECT_EQ(node.destroy(id), 0);
}

// As librdmacm from release 60 on writes it: with room for all that an event may say, of which its argument counts.
TEST(HostileUcma, AnEventOfTheProgramsOwnComesBack) {
  const Node node;
  const std::uint32_t id = node.create();
  for (const std::uint32_t kind : {kEventUser, kEventInternal}) {
    Bytes payload = bytes_of(WriteEvent{id, 0, kind, 0xFFFF'FFFE, 0x0102'0304'0506'0708});
    payload.resize(offsetof(WriteEvent, argument) + sizeof(DatagramParam));
    ASSERT_EQ(node.write(static_cast<std::uint32_t>(Command::kWriteEvent), payload), 0);
    EventAnswer answer{};
    EXPECT_EQ(node.event(&answer), static_cast<int>(kind));
    EXPECT_EQ(answer.uid, 7u);
    EXPECT_EQ(answer.id, id);
    EXPECT_EQ(answer.status, -2);
    std::uint64_t argument = 0;
    std::memcpy(&argument, &answer.parameters, sizeof argument);
    EXPECT_EQ(argument, 0x0102'0304'0506'0708u);
  }
  EXPECT_EQ(node.destroy(id), 0);
}

// In each place where private data may stand, one byte too many; then the longest that there may be.
TEST(HostileUcma, OversizePrivateData) {
  const Node node;
  const std::uint32_t listener = node.create(), active = node.create();
  ASSERT_EQ(node.write(Command::kBindIp, BindIp{0, loopback(7174), listener}), 0);
  ASSERT_EQ(node.write(Command::kListen, Listen{listener, 4}), 0);
  ASSERT_EQ(node.write(Command::kResolveIp, ResolveIp{{}, loopback(7174), active, 1000}), 0);
  ASSERT_EQ(node.event(), 0);
  ASSERT_EQ(node.write(Command::kResolveRoute, ResolveRoute{active, 1000}), 0);
  ASSERT_EQ(node.event(), 2);
  Connect connect{};
  connect.id = active;
  EXPECT_EQ(node.write(Command::kConnect, connect), EINVAL) << "without parameters";
  connect.parameters.valid = 1;
  for (const std::uint8_t length : std::to_array<std::uint8_t>({57, 92, 255})) {
    connect.parameters.private_data_len = length;
    EXPECT_EQ(node.write(Command::kConnect, connect), EINVAL) << +length;
  }
  connect.parameters.private_data_len = 56;
  connect.parameters.private_data[55] = std::byte{0x5A};
  ASSERT_EQ(node.write(Command::kConnect, connect), 0);
  EventAnswer request;
  ASSERT_EQ(node.event(&request), 4);
  EXPECT_EQ(request.parameters.private_data[55], std::byte{0x5A});
  Accept accept{};
  accept.id = request.id;
  accept.parameters.valid = 1;
  for (const std::uint8_t length : std::to_array<std::uint8_t>({197, 255})) {
    accept.parameters.private_data_len = length;
    EXPECT_EQ(node.write(Command::kAccept, accept), EINVAL) << +length;
  }
  Reject reject{};
  reject.id = request.id;
  for (const std::uint8_t length : std::to_array<std::uint8_t>({149, 255})) {
    reject.private_data_len = length;
    EXPECT_EQ(node.write(Command::kReject, reject), EINVAL) << +length;
  }
  reject.private_data_len = 148;
  reject.private_data[147] = std::byte{0xA5};
  for (const std::uint8_t reason : std::to_array<std::uint8_t>({1, 3, 8, 27, 29, 34, 36, 255})) {
    reject.reason = reason;
    EXPECT_EQ(node.write(Command::kReject, reject), EINVAL) << "not for programs to say: " << +reason;
  }
  reject.reason = 35;  // vendor option
  ASSERT_EQ(node.write(Command::kReject, reject), 0);
  EventAnswer rejected;
  ASSERT_EQ(node.event(&rejected), 8);
  EXPECT_EQ(rejected.status, 35);
  EXPECT_EQ(rejected.parameters.private_data_len, 148);
  EXPECT_EQ(rejected.parameters.private_data[147], std::byte{0xA5});
}

TEST(HostileUcma, LooksLikeACharacterDevice) {
  const Node node;
  struct stat status {};
  ASSERT_EQ(::fstat(node.fd(), &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  struct stat64 status64 {};
  ASSERT_EQ(::fstat64(node.fd(), &status64), 0);
  EXPECT_TRUE(S_ISCHR(status64.st_mode));
  const int copy = ::dup(node.fd());
  ASSERT_EQ(::fstat(copy, &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  ::close(copy);
  EXPECT_EQ(node.destroy(60'000), ENOENT) << "the channel outlives a copy of its descriptor";
  const std::uint64_t one = 1;  // which an eventfd would add to its count of events
  EXPECT_EQ(node.write_raw(&one, sizeof one), EINVAL);
}

// Commands of random shape, with pointers to unmapped memory or to a place for answers; then all still works.
TEST(HostileUcma, AStormOfNonsense) {
  const Node node;
  const Pages pages;
  std::array<std::byte, 512> room{};
  std::mt19937_64 random{7};
  const auto bad = pages.bad_for_answers();
  for (int i = 0; i < 50'000; ++i) {
    const Shape& shape = kShapes[random() % std::size(kShapes)];
    Bytes payload = payload_of(shape, static_cast<std::uint32_t>(random() % 8),
                               random() % 4 == 0 ? bad[random() % bad.size()] : address_of(room.data()));
    for (std::uint64_t changes = random() % 4; changes > 0; --changes) {
      const std::size_t at = random() % payload.size();
      const bool pointer = (shape.response_at != kNone && at >= shape.response_at && at < shape.response_at + 8) ||
                           (shape.command == Command::kSetOption && at < 8);
      if (!pointer) payload[at] = static_cast<std::byte>(random() % 3 == 0 ? random() : random() % 3);
    }
    if (random() % 8 == 0) payload.resize(random() % (payload.size() + 1));
    (void)node.write(static_cast<std::uint32_t>(shape.command), payload, random() % 2 == 0 ? 400 : random() % 400);
  }
  const Node after;
  const std::uint32_t id = after.create();
  EXPECT_EQ(after.write(Command::kResolveIp, ResolveIp{{}, loopback(7), id, 1000}), 0);
  EXPECT_EQ(after.event(), 0);
  EXPECT_EQ(after.destroy(id), 0);
}

}  // namespace
