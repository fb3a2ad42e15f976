// SEND and receive between two processes in C++, connected by RDMA-CM. Both sleep until a completion comes.
//   send            the server: waits for a client, checks its message and sends the sum of its bytes back
//   send ADDRESS    the client
// Build: c++ -std=c++17 -o send send.cc -lrdmacm -libverbs
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <cerrno>
#include <iostream>
#include <memory>
#include <numeric>
#include <system_error>
#include <vector>

template <auto Function>
struct Call {
  template <class T>
  void operator()(T* object) const {
    Function(object);
  }
};
using Info = std::unique_ptr<rdma_addrinfo, Call<rdma_freeaddrinfo>>;
using Endpoint = std::unique_ptr<rdma_cm_id, Call<rdma_destroy_ep>>;
using Memory = std::unique_ptr<ibv_mr, Call<rdma_dereg_mr>>;

static void require(bool holds, const char* what) {
  if (!holds) throw std::system_error(errno, std::generic_category(), what);
}
static void completed(int count, const ibv_wc& done) {
  require(count == 1, "no completion");
  if (done.status != IBV_WC_SUCCESS) throw std::runtime_error(ibv_wc_status_str(done.status));
}
static Endpoint endpoint(const char* server) {
  rdma_addrinfo hints{}, *found = nullptr;
  hints.ai_port_space = RDMA_PS_TCP;
  hints.ai_flags = server == nullptr ? RAI_PASSIVE : 0;
  require(rdma_getaddrinfo(server == nullptr ? "0.0.0.0" : server, "18518", &hints, &found) == 0, "address");
  const Info info{found};
  ibv_qp_init_attr wanted{};
  wanted.cap = {1, 1, 1, 1, 0};
  wanted.sq_sig_all = 1;
  rdma_cm_id* id = nullptr;
  require(rdma_create_ep(&id, found, nullptr, &wanted) == 0, "no RDMA device: start it by `brdma run`");
  return Endpoint{id};
}
static int run(const char* server) {
  std::vector<unsigned char> data(1 << 20), received(data.size());
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<unsigned char>(i * 7);
  unsigned long wanted = std::accumulate(data.begin(), data.end(), 0ul), sum = 0;
  const Endpoint first = endpoint(server);
  rdma_cm_id* id = first.get();
  if (server == nullptr) require(rdma_listen(id, 1) == 0 && rdma_get_request(first.get(), &id) == 0, "listen");
  const Endpoint second{server == nullptr ? id : nullptr};
  auto& message = server == nullptr ? received : data;
  const Memory memory{rdma_reg_msgs(id, message.data(), message.size())}, word{rdma_reg_msgs(id, &sum, sizeof sum)};
  ibv_wc done{};
  if (server == nullptr) {
    require(rdma_post_recv(id, nullptr, received.data(), received.size(), memory.get()) == 0, "receive");
    require(rdma_accept(id, nullptr) == 0, "accept");
    completed(rdma_get_recv_comp(id, &done), done);
    sum = std::accumulate(received.begin(), received.end(), 0ul);
    require(rdma_post_send(id, nullptr, &sum, sizeof sum, word.get(), 0) == 0, "send");
    completed(rdma_get_send_comp(id, &done), done);
    std::cout << (received == data ? "the message is whole" : "the message is damaged") << std::endl;
    return received == data ? 0 : 1;
  }
  require(rdma_post_recv(id, nullptr, &sum, sizeof sum, word.get()) == 0, "receive");
  require(rdma_connect(id, nullptr) == 0, "connect");
  require(rdma_post_send(id, nullptr, data.data(), data.size(), memory.get(), 0) == 0, "send");
  completed(rdma_get_recv_comp(id, &done), done);
  return sum == wanted ? 0 : 1;
}
int main(int argc, char** argv) try { return run(argc > 1 ? argv[1] : nullptr); } catch (const std::exception& error) {
  return std::cerr << error.what() << std::endl, 1;
}
