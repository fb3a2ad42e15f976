// fi_stream - bandwidth of libfabric's reliable datagrams over a provider: COUNT messages of BYTES one way, up to 64 in
// flight (fewer large ones). The time ends when the server has received all and reported that by TCP. Debian packages
// no benchmark of libfabric but fi_pingpong, which has one message in flight.
//   fi_stream PROVIDER BYTES COUNT [ADDRESS]
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "exchange.h"

namespace {

constexpr std::size_t kUnderWayMax = 64;
constexpr std::size_t kMemoryMax = 64 << 20;

void done(int result, const char* what) {
  if (result >= 0) return;
  std::fprintf(stderr, "fi_stream: %s: %s\n", what, fi_strerror(-result));
  std::exit(1);
}

// An endpoint with one completion queue, and memory that it may use.
class Endpoint {
 public:
  Endpoint(const char* provider, const std::string& own_address, std::size_t bytes) : memory_(bytes) {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT;
    hints->ep_attr->type = FI_EP_RDM;
    hints->addr_format = FI_SOCKADDR_IN;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup(provider);
    done(fi_getinfo(FI_VERSION(1, 17), own_address.c_str(), nullptr, FI_SOURCE, hints, &info_), "fi_getinfo");
    done(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    done(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    fi_av_attr addresses{};
    addresses.type = FI_AV_MAP;
    done(fi_av_open(domain_, &addresses, &addresses_, nullptr), "fi_av_open");
    fi_cq_attr queue{};
    queue.format = FI_CQ_FORMAT_CONTEXT;
    queue.size = 1024;
    done(fi_cq_open(domain_, &queue, &cq_, nullptr), "fi_cq_open");
    done(fi_endpoint(domain_, info_, &endpoint_, nullptr), "fi_endpoint");
    done(fi_ep_bind(endpoint_, &addresses_->fid, 0), "fi_ep_bind");
    done(fi_ep_bind(endpoint_, &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    done(fi_enable(endpoint_), "fi_enable");
    if ((info_->domain_attr->mr_mode & FI_MR_LOCAL) != 0) {
      fid_mr* mr = nullptr;
      done(fi_mr_reg(domain_, memory_.data(), memory_.size(), FI_SEND | FI_RECV, 0, 1, 0, &mr, nullptr), "fi_mr_reg");
      descriptor_ = fi_mr_desc(mr);
    }
  }

  // Exchanges addresses with the other end.
  void meet(const bench::Peer& peer) {
    std::array<std::uint8_t, 64> name{}, theirs{};
    std::size_t size = name.size();
    done(fi_getname(&endpoint_->fid, name.data(), &size), "fi_getname");
    peer.send(name.data(), name.size());
    peer.receive(theirs.data(), theirs.size());
    done(fi_av_insert(addresses_, theirs.data(), 1, &peer_, 0, nullptr), "fi_av_insert");
  }

  // Posts one of the slots; false: not now.
  bool send(std::size_t slot, std::size_t bytes) {
    return posted(fi_send(endpoint_, memory_.data() + slot * bytes, bytes, descriptor_, peer_, &contexts_[slot]));
  }
  bool receive(std::size_t slot, std::size_t bytes) {
    return posted(
        fi_recv(endpoint_, memory_.data() + slot * bytes, bytes, descriptor_, FI_ADDR_UNSPEC, &contexts_[slot]));
  }
  // The slot of one completion, or none. Progress is made only here.
  bool poll(std::size_t& slot) {
    fi_cq_entry entry{};
    const ssize_t n = fi_cq_read(cq_, &entry, 1);
    if (n == -FI_EAGAIN) return false;
    done(static_cast<int>(n), "fi_cq_read");
    slot = static_cast<std::size_t>(static_cast<fi_context2*>(entry.op_context) - contexts_.data());
    return true;
  }

 private:
  static bool posted(ssize_t result) {
    if (result == -FI_EAGAIN) return false;
    done(static_cast<int>(result), "a post");
    return true;
  }

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_av* addresses_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  void* descriptor_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::array<fi_context2, kUnderWayMax> contexts_{};
  std::vector<std::uint8_t> memory_;
};

void post(Endpoint& endpoint, bool (Endpoint::*how)(std::size_t, std::size_t), std::size_t slot, std::size_t bytes,
          std::vector<std::size_t>& finished) {
  while (!(endpoint.*how)(slot, bytes)) {
    if (std::size_t other = 0; endpoint.poll(other)) finished.push_back(other);
  }
}

// `count` messages, of which a server receives what a client sends.
void stream(Endpoint& endpoint, bool (Endpoint::*how)(std::size_t, std::size_t), std::size_t slots, std::size_t bytes,
            std::size_t count) {
  std::vector<std::size_t> finished;
  std::size_t begun = 0, ended = 0;
  for (; begun < std::min(slots, count); ++begun) post(endpoint, how, begun, bytes, finished);
  while (ended < count) {
    if (std::size_t slot = 0; endpoint.poll(slot)) finished.push_back(slot);
    while (!finished.empty()) {
      const std::size_t slot = finished.back();
      finished.pop_back();
      ++ended;
      if (begun == count) continue;
      post(endpoint, how, slot, bytes, finished);
      ++begun;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fputs("fi_stream PROVIDER BYTES COUNT [ADDRESS]\n", stderr);
    return 2;
  }
  const bool client = argc > 4;
  const std::size_t bytes = std::strtoul(argv[2], nullptr, 10), count = std::strtoul(argv[3], nullptr, 10);
  const std::size_t slots = std::clamp<std::size_t>(kMemoryMax / bytes, 4, kUnderWayMax);
  const bench::Peer peer = client ? bench::Peer::call(argv[4]) : bench::Peer::serve();
  Endpoint endpoint(argv[1], peer.own_address(), bytes * slots);
  endpoint.meet(peer);
  if (!client) {
    stream(endpoint, &Endpoint::receive, slots, bytes, count);
    const char word = 1;
    peer.send(&word, sizeof word);
    for (std::size_t slot = 0; !peer.said_something();)
      (void)endpoint.poll(slot);  // acknowledgements leave only in calls
  } else {
    const std::uint64_t begin = bench::now_ns();
    stream(endpoint, &Endpoint::send, slots, bytes, count);
    for (std::size_t slot = 0; !peer.said_something();) (void)endpoint.poll(slot);
    const auto took = static_cast<double>(bench::now_ns() - begin);
    std::printf("gbit_per_s %.6f\n", static_cast<double>(bytes * count) * 8 / took);
  }
  std::fflush(nullptr);
  std::_Exit(0);  // an orderly end would wait for the provider's own time-outs
}
