// Input: operations on one process's RDMA-CM: a peer's MADs (any bytes, or well formed with ids, addresses and
// transactions of earlier messages), the program's calls, time. Invariants:
//   - a sent message parses, and is written to the same bytes again; it goes to an address that has sent one, or was
//   asked for;
//   - after handle_timeout(now) no deadline lies at or before now; reported and fetched events agree with the host's
//   count;
//   - in the end, with all identifiers destroyed and some minutes passed in silence, nothing is left.
#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "cm/rdma_cm.h"
#include "cm_host.h"
#include "input_reader.h"

namespace {

using namespace brdma;  // a test's entry point, no header
using fuzz::InputReader, fuzz::kHere, fuzz::kPeers;

constexpr std::size_t kConnectionsMax = 64, kOperationsMax = 400;
constexpr std::uint32_t kIdsUsed = 8;

class World {
 public:
  World() : cm_({.id_prefix = 0x1234, .connections_max = kConnectionsMax}, host_) {}

  void run(InputReader& in) {
    for (std::size_t i = 0; i < kOperationsMax && !in.empty(); ++i) {
      step(in);
      collect();
    }
    cm_.destroy_all(now_);
    collect();
    for (int i = 0; i < 100'000 && cm_.next_timeout(); ++i) pass(*cm_.next_timeout() - now_);
    BRDMA_CHECK(!cm_.next_timeout() && cm_.ids() == 0 && cm_.connections() == 0);
  }

 private:
  void step(InputReader& in) {
    switch (in.u8() % 8) {
      case 0:
      case 1:
      case 2:
        return receive(well_formed(in), in);
      case 3: {
        std::array<std::byte, wire::kMadSize> mad{};
        const auto bytes = in.bytes(mad.size());
        std::transform(bytes.begin(), bytes.end(), mad.begin(), [](std::uint8_t b) { return std::byte{b}; });
        return cm_.handle_mad({kHere, kPeers[in.u8() % kPeers.size()]}, mad, now_);
      }
      case 4:
        return pass(Duration::from_ns(std::int64_t{in.u16()} * 100'000));
      case 5:
        fetch(in.u8() % 2);
        return;
      default:
        return call(in);
    }
  }

  // A plausible message: most of its ids, and its transaction, were seen before.
  wire::CmMad well_formed(InputReader& in) {
    wire::CmMad mad = said_.empty() ? wire::CmMad{} : said_[in.u8() % said_.size()];
    const std::uint32_t theirs = in.u8() % 8, ours = ids_.empty() ? 0 : ids_[in.u8() % ids_.size()];
    if (in.u8() % 4 == 0) mad.transaction = in.u8();
    const auto with_ids = [&](auto message) {
      message.local_comm_id = theirs;
      message.remote_comm_id = ours;
      mad.message = message;
    };
    switch (in.u8() % 9) {
      case 0:
      case 1: {
        wire::CmReq req;
        req.local_comm_id = theirs;
        req.service_id = wire::service_id(wire::PortSpace::kTcp, static_cast<std::uint16_t>(in.u8() % 4));
        req.qpn = in.u8() % 8;
        req.path_mtu_code = static_cast<std::uint8_t>(in.u8() % 5 + 1);
        req.transport = in.u8() % 8 == 0 ? 1 : 0;
        const IpAddress& peer = kPeers[in.u8() % kPeers.size()];
        req.path.local_gid = peer;
        req.path.remote_gid = in.u8() % 8 == 0 ? peer : kHere;
        wire::emit_cm_address({in.u16(), peer, kHere}, req.private_data.data());
        mad.message = req;
        break;
      }
      case 2: {
        wire::CmRep rep;
        rep.qpn = in.u8();
        with_ids(rep);
        break;
      }
      case 3:
        with_ids(wire::CmRtu{});
        break;
      case 4: {
        wire::CmRej rej;
        rej.reason = in.u8();
        with_ids(rej);
        break;
      }
      case 5: {
        wire::CmMra mra;
        mra.service_timeout = in.u8() % 32;
        with_ids(mra);
        break;
      }
      case 6: {
        wire::CmDreq dreq;
        dreq.remote_qpn = in.u8() % 8;
        with_ids(dreq);
        break;
      }
      case 7:
        with_ids(wire::CmDrep{});
        break;
      default:
        with_ids(wire::CmLap{});
    }
    return mad;
  }

  void receive(const wire::CmMad& mad, InputReader& in) {
    std::array<std::byte, wire::kMadSize> bytes;
    wire::emit_cm(mad, bytes);
    cm_.handle_mad({kHere, kPeers[in.u8() % kPeers.size()]}, bytes, now_);
  }

  void call(InputReader& in) {
    const cm::IdNumber id = in.u8() % kIdsUsed;
    cm::ConnectParameters parameters;
    parameters.qpn = in.u8() % 8;
    parameters.private_data_length = in.u8();
    const auto port = static_cast<std::uint16_t>(in.u8() % 4);
    switch (in.u8() % 14) {
      case 0:
        if (cm_.ids() < kIdsUsed) (void)cm_.create(in.u8() % 2, id);
        return;
      case 1:
        return (void)cm_.destroy(id, now_);
      case 2:
        return (void)cm_.bind(id, {in.coin() ? kHere : IpAddress::v4(0, 0, 0, 0), port});
      case 3:
        return (void)cm_.resolve_address(id, std::nullopt, {kPeers[in.u8() % kPeers.size()], port});
      case 4:
        return (void)cm_.resolve_route(id);
      case 5:
        return (void)cm_.listen(id, in.u8() % 4);
      case 6:
        return (void)cm_.connect(id, parameters, {}, now_);
      case 7:
        return (void)cm_.accept(id, id, parameters, {}, now_);
      case 8:
        return (void)cm_.confirm(id);
      case 9:
        return (void)cm_.reject(id, in.u8(), {}, now_);
      case 10:
        return (void)cm_.disconnect(id, now_);
      case 11:
        return (void)cm_.established(id);
      case 12:
        return (void)cm_.migrate(id, in.u8() % 2);
      default:
        (void)cm_.queue_pair_setting(id, static_cast<QpState>(in.u8() % 8));
        (void)cm_.query(id);
    }
  }

  void fetch(cm::ChannelNumber channel) {
    BRDMA_CHECK(host_.waiting[channel] >= 0);
    const bool any = cm_.fetch_event(channel).has_value();
    BRDMA_CHECK(any == (host_.waiting[channel] > 0));
    if (any) --host_.waiting[channel];
  }

  void pass(Duration duration) {
    now_ = now_ + duration;
    cm_.handle_timeout(now_);
    BRDMA_CHECK(!cm_.next_timeout() || *cm_.next_timeout() > now_);
    collect();
  }

  void collect() {
    cm::OutgoingMad out;
    while (cm_.poll_send(out)) {
      BRDMA_CHECK(out.endpoints.local == kHere);
      BRDMA_CHECK(std::find(kPeers.begin(), kPeers.end(), out.endpoints.remote) != kPeers.end());
      const auto mad = wire::parse_cm(out.mad);
      BRDMA_CHECK(mad.has_value());
      std::array<std::byte, wire::kMadSize> again;
      wire::emit_cm(*mad, again);
      BRDMA_CHECK(again == out.mad);
      remember(*mad);
    }
    BRDMA_CHECK(cm_.connections() <= kConnectionsMax);
  }

  void remember(const wire::CmMad& mad) {
    const std::uint32_t id = std::visit(
        [](const auto& message) -> std::uint32_t {
          if constexpr (requires { message.local_comm_id; }) return message.local_comm_id;
          return 0;
        },
        mad.message);
    if (id >> 16 == 0x1234 && ids_.size() < 32) ids_.push_back(id);
    if (said_.size() < 32) said_.push_back(mad);
  }

  fuzz::CmHost host_;
  cm::RdmaCm cm_;
  Instant now_ = Instant::from_ns(1'000'000'000);
  std::vector<wire::CmMad> said_;
  std::vector<std::uint32_t> ids_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  InputReader in{data, size};
  World world;
  world.run(in);
  return 0;
}
