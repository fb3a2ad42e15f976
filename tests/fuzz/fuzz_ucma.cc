// Input: a program's writes to RDMA-CM's node, on two channels: well-formed commands with a field or two changed,
// truncated or lengthened, raw bytes; answers to good addresses and bad ones; time. Its own messages come back to it,
// so that connections are made. Invariants:
//   - a command is accepted or refused with one of its errno values; a refused one leaves the number of identifiers,
//   and of events, unchanged;
//   - nothing is written behind the room that the program gave for the answer;
//   - in the end, with both channels closed and some minutes passed, nothing is left.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "cm_host.h"
#include "input_reader.h"
#include "rdma_cm/commands.h"
#include "rdma_cm/execute.h"

namespace {

using namespace brdma;                  // a test's entry point, no header
using namespace brdma::provider::ucma;  // likewise
using fuzz::InputReader, fuzz::kHere;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kOperationsMax = 300;
constexpr cm::ChannelNumber kChannels = 2;
constexpr std::byte kUntouched{0xAA};

// The channels' descriptors, which outlive the worlds: RDMA-CM counts events, and so does the eventfd.
std::array<int, kChannels>& descriptors() {
  static std::array<int, kChannels> fds{::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC),
                                        ::eventfd(0, EFD_SEMAPHORE | EFD_NONBLOCK | EFD_CLOEXEC)};
  return fds;
}

void take_one(int fd) {
  std::uint64_t one = 0;
  BRDMA_CHECK(::read(fd, &one, sizeof one) == sizeof one);
}

class Host final : public fuzz::CmHost {
 public:
  void event_added(cm::ChannelNumber channel) override {
    CmHost::event_added(channel);
    const std::uint64_t one = 1;
    BRDMA_CHECK(::write(descriptors()[channel], &one, sizeof one) == sizeof one);
  }
  std::uint32_t take_back_events(cm::ChannelNumber channel, std::uint32_t count) override {
    for (std::uint32_t i = 0; i < count; ++i) take_one(descriptors()[channel]);
    return CmHost::take_back_events(channel, count);
  }
};

// An unmapped page.
std::uint64_t nowhere() {
  static void* const page = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return reinterpret_cast<std::uintptr_t>(page);
}

// Offset of the address of an answer, or of an option's value, in a payload; none: beyond any.
std::size_t pointer_of(Command command) {
  switch (command) {
    case Command::kCreateId:
      return offsetof(CreateId, response);
    case Command::kDestroyId:
    case Command::kQueryRoute:
    case Command::kInitQpAttr:
    case Command::kGetEvent:
    case Command::kSetOption:
    case Command::kJoinIpMulticast:
    case Command::kLeaveMulticast:
    case Command::kMigrateId:
    case Command::kBindIp:
      return 0;
    default:
      return kPayloadMax;
  }
}

class World final : public provider::CmDesk {
 public:
  World() : cm_({.id_prefix = 0x1234, .connections_max = 64}, host_) {}

  void run(InputReader& in) {
    for (std::size_t i = 0; i < kOperationsMax && !in.empty(); ++i) {
      if (in.u8() % 16 == 0) {
        pass(Duration::from_ns(std::int64_t{in.u16()} * 100'000));
      } else {
        write(in);
      }
      deliver();
    }
    for (cm::ChannelNumber channel = 0; channel < kChannels; ++channel) {
      cm_.close_channel(channel, now_);
      for (; host_.waiting[channel] > 0; --host_.waiting[channel]) take_one(descriptors()[channel]);
    }
    deliver();
    for (int i = 0; i < 100'000 && cm_.next_timeout(); ++i) pass(*cm_.next_timeout() - now_);
    BRDMA_CHECK(!cm_.next_timeout() && cm_.ids() == 0 && cm_.connections() == 0);
  }

  std::unique_ptr<Session> begin() override { return std::make_unique<Session>(cm_, now_); }
  void pause() override {}
  std::optional<cm::ChannelNumber> find_channel(int fd) override {
    const auto found = std::find(descriptors().begin(), descriptors().end(), fd);
    if (found == descriptors().end()) return std::nullopt;
    return static_cast<cm::ChannelNumber>(found - descriptors().begin());
  }

 private:
  // Mostly a program's typical values; small numbers in place of an identifier or a state.
  Bytes payload(Command command, InputReader& in) {
    const std::uint32_t id = in.u8() % 6;
    const auto address = [&in] {
      SockAddr bytes{};
      bytes[0] = std::byte{2};  // IPv4
      bytes[2] = std::byte{0x1C}, bytes[3] = static_cast<std::byte>(in.u8() % 4);
      if (in.coin()) bytes[4] = std::byte{10}, bytes[7] = std::byte{1};
      return bytes;
    };
    const auto bytes_of = [](const auto& value) {
      Bytes bytes(sizeof value);
      std::memcpy(bytes.data(), &value, sizeof value);
      return bytes;
    };
    switch (command) {
      case Command::kCreateId: {
        static constexpr std::array kSpaces{kPortSpaceTcp, kPortSpaceTcp, kPortSpaceUdp, kPortSpaceIb, kPortSpaceIpoib};
        const std::uint8_t choice = in.u8();
        return bytes_of(CreateId{id, 0, kSpaces[choice % kSpaces.size()], static_cast<std::uint8_t>(choice % 16), {}});
      }
      case Command::kBindIp:
        return bytes_of(BindIp{0, address(), id});
      case Command::kResolveIp: {
        SockAddr to = address();
        to[4] = std::byte{10}, to[7] = std::byte{1};
        return bytes_of(ResolveIp{{}, to, id, 1000});
      }
      case Command::kConnect: {
        Connect connect{};
        connect.id = id;
        connect.parameters.valid = 1;
        connect.parameters.private_data_len = in.u8();
        return bytes_of(connect);
      }
      case Command::kAccept: {
        Accept accept{};
        accept.id = id;
        accept.parameters.valid = in.coin() ? 1 : 0;
        accept.parameters.private_data_len = in.u8();
        return bytes_of(accept);
      }
      case Command::kReject: {
        Reject reject{};
        reject.id = id;
        reject.private_data_len = in.u8();
        return bytes_of(reject);
      }
      case Command::kResolveRoute:
      case Command::kListen:
      case Command::kDisconnect:
      case Command::kNotify:
        return bytes_of(Notify{id, kEventCommunicationEstablished});
      case Command::kInitQpAttr:
        return bytes_of(InitQpAttr{0, id, in.u8() % 8u});
      case Command::kSetOption:
        return bytes_of(SetOption{0, id, kLevelId, in.u8() % 5u, in.coin() ? 1u : 4u});
      case Command::kJoinIpMulticast: {
        SockAddr group = address();
        group[4] = std::byte{239};
        return bytes_of(JoinIpMulticast{0, id, group, id});
      }
      case Command::kMigrateId:
        return bytes_of(MigrateId{0, id, static_cast<std::uint32_t>(descriptors()[in.u8() % kChannels])});
      case Command::kWriteEvent:
        return bytes_of(WriteEvent{id, 0, kEventUser + in.u8() % 3u, 0, in.u8()});
      default:
        return bytes_of(Id{0, id, 0});
    }
  }

  void write(InputReader& in) {
    const std::uint8_t number = in.u8() % 20;  // 19 is not served: that of an event stands for it
    const auto command = number == 19 ? Command::kWriteEvent : static_cast<Command>(number);
    Bytes bytes(sizeof(Header));
    const Bytes said = payload(command, in);
    bytes.insert(bytes.end(), said.begin(), said.end());
    for (unsigned changes = in.u8() % 4 == 0 ? in.u8() % 4u : 0; changes > 0; --changes) {
      bytes[sizeof(Header) + in.u8() % said.size()] = static_cast<std::byte>(in.u8());
    }
    if (in.u8() % 16 == 0) bytes.resize(sizeof(Header) + in.u16() % 400);
    // Only the test gives valid addresses: a valid one is `room_`.
    const std::size_t pointer = sizeof(Header) + pointer_of(command);
    const std::uint64_t place = in.u8() % 8 == 0 ? nowhere() : reinterpret_cast<std::uintptr_t>(room_.data());
    if (pointer < bytes.size())
      std::memcpy(bytes.data() + pointer, &place, std::min(sizeof place, bytes.size() - pointer));
    const bool whole = pointer + sizeof place <= bytes.size();
    if (pointer < bytes.size() && !whole) return;  // half an address could be any address
    const bool roomy = in.u8() % 4 != 0;
    Header header{static_cast<std::uint32_t>(command), static_cast<std::uint16_t>(bytes.size() - sizeof(Header)),
                  static_cast<std::uint16_t>(roomy ? room_.size() : in.u8())};
    if (in.u8() % 32 == 0) header.in = in.u16();
    // Less than the address: missing bytes are zero.
    std::memcpy(bytes.data(), &header, sizeof header);
    std::size_t count = bytes.size();
    if (in.u8() % 32 == 0) count = in.u8() % (count + 1);
    run_one(bytes, count, header.out, in.u8() % kChannels);
  }

  void run_one(const Bytes& bytes, std::size_t count, std::size_t out, cm::ChannelNumber channel) {
    // In a block of just its size: sanitizers detect a read beyond it.
    const std::unique_ptr<std::byte[]> program{new std::byte[count]};
    std::copy_n(bytes.begin(), count, program.get());
    room_.fill(kUntouched);
    const std::size_t ids = cm_.ids();
    const auto waiting = host_.waiting;
    const int error = provider::execute(*this, channel, descriptors()[channel], program.get(), count);
    BRDMA_CHECK(std::all_of(room_.begin() + static_cast<std::ptrdiff_t>(std::min(out, room_.size())), room_.end(),
                            [](std::byte b) { return b == kUntouched; }));
    if (error == 0) {
      std::uint32_t command = 0;
      std::memcpy(&command, bytes.data(), sizeof command);
      if (command == static_cast<std::uint32_t>(Command::kGetEvent)) --host_.waiting[channel];
      return;
    }
    static constexpr std::array kErrors{EINVAL, ENOSYS, ENOENT,     ENOSPC,  EFAULT,     EAGAIN,     ENODEV,
                                        ENOMEM, EACCES, EADDRINUSE, EISCONN, EOPNOTSUPP, ENETUNREACH};
    BRDMA_CHECK(std::find(kErrors.begin(), kErrors.end(), error) != kErrors.end());
    BRDMA_CHECK(cm_.ids() == ids && host_.waiting == waiting);
  }

  void pass(Duration duration) {
    now_ = now_ + duration;
    cm_.handle_timeout(now_);
    deliver();
  }

  // Its messages to itself arrive; others are lost.
  void deliver() {
    cm::OutgoingMad out;
    for (int i = 0; i < 1000 && cm_.poll_send(out); ++i) {
      BRDMA_CHECK(out.endpoints.local == kHere);
      if (out.endpoints.remote == kHere) cm_.handle_mad({kHere, kHere}, out.mad, now_);
    }
  }

  Host host_;
  cm::RdmaCm cm_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  alignas(8) std::array<std::byte, 400> room_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  InputReader in{data, size};
  World world;
  world.run(in);
  return 0;
}
