#include "controller-session/secure_stream.h"

#include <openssl/ssl.h>

#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace brdma::session {
namespace {

using ErrorCode = boost::system::error_code;

// TLS_AES_128_GCM_SHA256: the default suite of a key (RFC 8446, 4.2.11).
constexpr std::array<unsigned char, 2> kSuite{0x13, 0x01};

int index_of_context() {
  static const int index = SSL_CTX_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}
int index_of_name() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}
SecureContext& context_of(SSL* ssl) {
  return *static_cast<SecureContext*>(SSL_CTX_get_ex_data(SSL_get_SSL_CTX(ssl), index_of_context()));
}
void note_name(SSL* ssl, std::string_view name) {
  if (auto* place = static_cast<std::string*>(SSL_get_ex_data(ssl, index_of_name()))) *place = name;
}

SSL_SESSION* session_with(SSL* ssl, const Key& key) {
  SSL_SESSION* session = SSL_SESSION_new();
  const SSL_CIPHER* suite = SSL_CIPHER_find(ssl, kSuite.data());
  if (session == nullptr || suite == nullptr || SSL_SESSION_set1_master_key(session, key.data(), key.size()) != 1 ||
      SSL_SESSION_set_cipher(session, suite) != 1 || SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) != 1) {
    SSL_SESSION_free(session);
    return nullptr;
  }
  return session;
}

// The controller's side: no session for an unknown name. The handshake then continues without a key and fails for lack
// of a certificate.
int find_session(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  *session = nullptr;
  const std::string_view name{reinterpret_cast<const char*>(identity), size};
  const Keys& keys = context_of(ssl).keys();
  const auto key = keys.find(name);
  if (key == keys.end()) return 1;
  *session = session_with(ssl, key->second);
  note_name(ssl, name);
  return *session != nullptr ? 1 : 0;
}

int use_session(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, std::size_t* size,
                SSL_SESSION** session) {
  *session = nullptr;
  const auto& [name, key] = *context_of(ssl).keys().begin();
  SSL_SESSION* own = session_with(ssl, key);
  if (own == nullptr) return 0;
  if (digest != nullptr && SSL_CIPHER_get_handshake_digest(SSL_SESSION_get0_cipher(own)) != digest) {
    SSL_SESSION_free(own);  // a retry for another suite: not one of ours
    return 1;
  }
  *session = own;
  *identity = reinterpret_cast<const unsigned char*>(name.data());
  *size = name.size();
  note_name(ssl, name);
  return 1;
}

}  // namespace

SecureContext::SecureContext(Keys keys) : tls_(asio::ssl::context::tls_server), keys_(std::move(keys)), member_(false) {
  prepare();
  // A session made of a key counts as resumed; a server accepts that only in a context with a name.
  constexpr std::array<unsigned char, 5> kContextName{'b', 'r', 'd', 'm', 'a'};
  SSL_CTX_set_session_id_context(tls_.native_handle(), kContextName.data(), kContextName.size());
  SSL_CTX_set_psk_find_session_callback(tls_.native_handle(), find_session);
}

SecureContext::SecureContext(std::string name, const Key& key)
    : tls_(asio::ssl::context::tls_client), keys_({{std::move(name), key}}), member_(true) {
  prepare();
  SSL_CTX_set_psk_use_session_callback(tls_.native_handle(), use_session);
}

void SecureContext::prepare() {
  SSL_CTX* tls = tls_.native_handle();
  SSL_CTX_set_ex_data(tls, index_of_context(), this);
  // No certificate is valid, no session is resumed: each begins with the key.
  tls_.set_verify_mode(asio::ssl::verify_peer);
  SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_options(tls, SSL_OP_NO_TICKET);
  if (SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) != 1 || SSL_CTX_set_num_tickets(tls, 0) != 1 ||
      SSL_CTX_set_ciphersuites(tls, "TLS_AES_128_GCM_SHA256") != 1) {
    throw std::runtime_error("this OpenSSL has no TLS 1.3");
  }
}

SecureStream::SecureStream(Protocol::socket socket, SecureContext& context)
    : context_(context),
      stream_(std::move(socket), context.tls()),
      silence_(stream_.get_executor()),
      alive_(stream_.get_executor()) {
  SSL_set_ex_data(stream_.native_handle(), index_of_name(), &key_name_);
}

void SecureStream::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  expect_life();
  handshake();
}

void SecureStream::handshake() {
  const auto side = context_.is_member() ? asio::ssl::stream_base::client : asio::ssl::stream_base::server;
  stream_.async_handshake(side, [self = shared_from_this()](ErrorCode error) {
    if (self->closed_) return;
    if (error) return self->close("handshake: " + error.message());
    if (SSL_session_reused(self->stream_.native_handle()) != 1) return self->close("handshake: without a key");
    self->open_ = true;
    self->expect_life();
    self->keep_alive();
    self->handlers_.opened(self->key_name_);
    if (!self->closed_) self->read_size();
  });
}

void SecureStream::expect_life() {
  silence_.expires_after(kSilenceMax);
  silence_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (!error && self) self->close("silent");
  });
}

void SecureStream::keep_alive() {
  alive_.expires_after(kAliveInterval);
  alive_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (error || !self || self->closed_) return;
    self->send(Alive{});
    self->keep_alive();
  });
}

void SecureStream::read_size() {
  asio::async_read(stream_, asio::buffer(size_), [self = shared_from_this()](ErrorCode error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->close(error.message());
    std::size_t size = 0;
    for (const unsigned char byte : self->size_) size = size << 8 | byte;
    if (size == 0 || size > kMessageMax) return self->close("a message of " + std::to_string(size) + " bytes");
    self->read_body(size);
  });
}

void SecureStream::read_body(std::size_t size) {
  body_.resize(size);
  asio::async_read(stream_, asio::buffer(body_), [self = shared_from_this()](ErrorCode error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->close(error.message());
    Parsed parsed = parse_message(self->body_);
    if (!parsed.ok) return self->close("a message that can't be read: " + parsed.error);
    self->expect_life();
    if (!std::holds_alternative<Alive>(parsed.message)) self->handlers_.received(std::move(parsed.message));
    if (!self->closed_) self->read_size();
  });
}

void SecureStream::send(const Message& message) {
  if (!open_ || closed_) return;
  const std::string text = message_text(message);
  std::string framed;
  for (int shift = 24; shift >= 0; shift -= 8) framed += static_cast<char>(text.size() >> shift & 0xFF);
  framed += text;
  unsent_bytes_ += framed.size();
  unsent_.push_back(std::move(framed));
  if (unsent_bytes_ > kUnsentMax) return close("does not read");
  if (unsent_.size() == 1) write();
}

void SecureStream::write() {
  asio::async_write(stream_, asio::buffer(unsent_.front()), [self = shared_from_this()](ErrorCode error, std::size_t) {
    if (self->closed_) return;
    if (error) return self->close(error.message());
    self->unsent_bytes_ -= self->unsent_.front().size();
    self->unsent_.pop_front();
    if (!self->unsent_.empty()) self->write();
  });
}

void SecureStream::abandon() {
  handlers_ = {};
  close("");
}

void SecureStream::close(const std::string& reason) {
  if (std::exchange(closed_, true)) return;
  silence_.cancel();
  alive_.cancel();
  ErrorCode ignored;
  stream_.next_layer().close(ignored);
  if (handlers_.closed) handlers_.closed(reason);
}

}  // namespace brdma::session
