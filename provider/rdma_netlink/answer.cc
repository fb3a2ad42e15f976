#include "rdma_netlink/answer.h"

#include <linux/netlink.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>

#include "rdma_netlink/commands.h"
#include "rdma_netlink/message.h"
#include "rdma_netlink/request.h"

namespace brdma::provider::nldev {
namespace {

constexpr std::size_t kQuotedMax = 1024;  // of a request in an error without NETLINK_CAP_ACK

class Conversation {
 public:
  Conversation(const Asker& asker, Source& source) : asker_(asker), source_(source) {}

  void take(const Request& request) {
    const bool asks = (request.header.flags & NLM_F_REQUEST) != 0 && request.header.type >= NLMSG_MIN_TYPE;
    Reply reply;
    if (asks) reply = run(request);
    const std::uint16_t more = reply.is_dump ? NLM_F_MULTI : 0;
    for (const Part& part : reply.parts) add(request, part.operation, more, part.payload.bytes());
    const bool dumped = reply.is_dump && reply.error == 0;
    if (dumped) return done(request);
    if (reply.error != 0 || (request.header.flags & NLM_F_ACK) != 0) acknowledge(request, reply);
  }
  std::vector<Bytes> take_datagrams() { return std::move(datagrams_); }

 private:
  Reply run(const Request& request) {
    if (request.header.type >> kClientShift != kClient) return refusal(EINVAL);
    const std::uint16_t operation = request.header.type & ((1 << kClientShift) - 1);
    const bool dump = (request.header.flags & NLM_F_DUMP) == NLM_F_DUMP;
    const Command* const command = find_command(operation, dump);
    if (command == nullptr) return refusal(EINVAL);
    if (command->needs_admin && !asker_.is_admin) return refusal(EPERM);
    const auto attributes = Attributes::parse(request.payload);
    if (!attributes) return refusal(EINVAL);
    Reply reply = command->run({*attributes, asker_, source_});
    reply.is_dump = dump;
    return reply;
  }

  // One datagram a message: readers take messages apart, and each fits.
  void add(const Request& request, Operation operation, std::uint16_t flags, ConstBytes payload) {
    const auto type = static_cast<std::uint16_t>(kTypeBase + static_cast<std::uint16_t>(operation));
    datagrams_.push_back(message({0, type, flags, request.header.sequence, asker_.port}, payload));
  }
  void done(const Request& request) {
    const std::array<std::byte, 4> zero{};
    datagrams_.push_back(message({0, NLMSG_DONE, NLM_F_MULTI, request.header.sequence, asker_.port}, zero));
  }
  // struct nlmsgerr, as netlink_ack() makes it.
  void acknowledge(const Request& request, const Reply& reply) {
    const bool quotes_all = reply.error != 0 && !asker_.capped && request.whole.size() <= kQuotedMax;
    const ConstBytes quoted = request.whole.first(quotes_all ? request.whole.size() : kHeaderBytes);
    const std::int32_t error = -reply.error;
    Bytes payload(sizeof error);
    std::ranges::copy(std::as_bytes(std::span{&error, 1}), payload.begin());
    payload.insert(payload.end(), quoted.begin(), quoted.end());
    std::uint16_t flags = quotes_all ? 0 : NLM_F_CAPPED;
    if (asker_.explained && reply.error != 0 && !reply.reason.empty()) {
      payload.resize((payload.size() + 3) / 4 * 4);
      Writer text;
      text.text(static_cast<Attribute>(NLMSGERR_ATTR_MSG), reply.reason);
      payload.insert(payload.end(), text.bytes().begin(), text.bytes().end());
      flags |= NLM_F_ACK_TLVS;
    }
    datagrams_.push_back(message({0, NLMSG_ERROR, flags, request.header.sequence, asker_.port}, payload));
  }

  const Asker& asker_;
  Source& source_;
  std::vector<Bytes> datagrams_;
};

}  // namespace

std::vector<Bytes> answers(ConstBytes datagram, const Asker& asker, Source& source) {
  Conversation conversation(asker, source);
  while (const auto request = next_request(datagram)) conversation.take(*request);
  return conversation.take_datagrams();
}

}  // namespace brdma::provider::nldev
