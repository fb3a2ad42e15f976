#include "wire/cm/cm_messages.h"

#include <algorithm>

namespace brdma::wire {
namespace {

constexpr std::uint32_t kMask24 = 0xFF'FFFF;

IpAddress load_gid(const std::byte* p) {
  IpAddress gid;
  std::memcpy(gid.bytes.data(), p, gid.bytes.size());
  return gid;
}
void store_gid(std::byte* p, const IpAddress& gid) { std::memcpy(p, gid.bytes.data(), gid.bytes.size()); }

// The lower `count` bits of `value`, shifted to their place in the byte.
constexpr std::uint8_t bits(unsigned value, unsigned count, unsigned shift) {
  return static_cast<std::uint8_t>((value & ((1u << count) - 1)) << shift);
}
constexpr std::uint8_t field(std::uint8_t byte, unsigned count, unsigned shift) {
  return static_cast<std::uint8_t>((byte >> shift) & ((1u << count) - 1));
}
std::uint32_t with_byte(std::uint32_t low24, unsigned byte) { return (low24 & kMask24) << 8 | (byte & 0xFF); }

template <std::size_t N>
void load_data(const std::byte* p, PrivateData<N>& to) {
  std::copy_n(p, N, to.begin());
}
template <std::size_t N>
void store_data(const PrivateData<N>& from, std::byte* p) {
  std::copy(from.begin(), from.end(), p);
}

// Both comm ids: most messages begin with them.
template <class Message>
Message with_ids(const std::byte* p) {
  Message message;
  message.local_comm_id = load_be32(p);
  message.remote_comm_id = load_be32(p + 4);
  return message;
}
template <class Message>
void store_ids(const Message& message, std::byte* p) {
  store_be32(p, message.local_comm_id);
  store_be32(p + 4, message.remote_comm_id);
}

CmPath parse_path(const std::byte* p) {
  CmPath path;
  path.local_lid = load_be16(p);
  path.remote_lid = load_be16(p + 2);
  path.local_gid = load_gid(p + 4);
  path.remote_gid = load_gid(p + 20);
  path.flow_label = load_be32(p + 36) >> 12;
  path.rate = field(load_u8(p + 39), 6, 0);
  path.traffic_class = load_u8(p + 40);
  path.hop_limit = load_u8(p + 41);
  path.sl = field(load_u8(p + 42), 4, 4);
  path.subnet_local = field(load_u8(p + 42), 1, 3) != 0;
  path.ack_timeout = field(load_u8(p + 43), 5, 3);
  return path;
}

void emit_path(const CmPath& path, std::byte* p) {
  store_be16(p, path.local_lid);
  store_be16(p + 2, path.remote_lid);
  store_gid(p + 4, path.local_gid);
  store_gid(p + 20, path.remote_gid);
  store_be32(p + 36, path.flow_label << 12 | bits(path.rate, 6, 0));
  store_u8(p + 40, path.traffic_class);
  store_u8(p + 41, path.hop_limit);
  store_u8(p + 42, bits(path.sl, 4, 4) | bits(path.subnet_local, 1, 3));
  store_u8(p + 43, bits(path.ack_timeout, 5, 3));
}

constexpr std::size_t kPathAt = 52, kAlternateAt = 96, kPathSize = 44;

// A present alternate path has a local LID; an absent one is all zero.
bool has_alternate(const std::byte* p) {
  return std::any_of(p + kAlternateAt, p + kAlternateAt + kPathSize, [](std::byte b) { return b != std::byte{0}; });
}

std::optional<CmMessage> parse_req(const std::byte* p, std::uint32_t modifier) {
  CmReq req;
  req.local_comm_id = load_be32(p);
  req.ece = {.vendor_id = load_be24(p + 5), .modifier = modifier};
  req.service_id = load_be64(p + 8);
  req.ca_guid = load_be64(p + 16);
  req.qkey = load_be32(p + 28);
  req.qpn = load_be24(p + 32);
  req.responder_resources = load_u8(p + 35);
  req.initiator_depth = load_u8(p + 39);
  req.remote_response_timeout = field(load_u8(p + 43), 5, 3);
  req.transport = field(load_u8(p + 43), 2, 1);
  req.flow_control = field(load_u8(p + 43), 1, 0) != 0;
  req.first_psn = Psn{load_be24(p + 44)};
  req.local_response_timeout = field(load_u8(p + 47), 5, 3);
  req.retry_count = field(load_u8(p + 47), 3, 0);
  req.pkey = load_be16(p + 48);
  req.path_mtu_code = field(load_u8(p + 50), 4, 4);
  req.rnr_retry_count = field(load_u8(p + 50), 3, 0);
  req.cm_retries = field(load_u8(p + 51), 4, 4);
  req.srq = field(load_u8(p + 51), 1, 3) != 0;
  req.extended_transport = field(load_u8(p + 51), 3, 0);
  req.path = parse_path(p + kPathAt);
  req.alternate = has_alternate(p);
  load_data(p + 140, req.private_data);
  if (req.path_mtu_code < 1 || req.path_mtu_code > 5) return std::nullopt;
  return req;
}

void emit(const CmReq& req, std::byte* p) {
  store_be32(p, req.local_comm_id);
  store_be24(p + 5, req.ece.vendor_id & kMask24);
  store_be64(p + 8, req.service_id);
  store_be64(p + 16, req.ca_guid);
  store_be32(p + 28, req.qkey);
  store_be32(p + 32, with_byte(req.qpn, req.responder_resources));
  store_u8(p + 39, req.initiator_depth);
  store_u8(p + 43, bits(req.remote_response_timeout, 5, 3) | bits(req.transport, 2, 1) | bits(req.flow_control, 1, 0));
  store_be32(p + 44,
             with_byte(req.first_psn.value(), bits(req.local_response_timeout, 5, 3) | bits(req.retry_count, 3, 0)));
  store_be16(p + 48, req.pkey);
  store_u8(p + 50, bits(req.path_mtu_code, 4, 4) | bits(req.rnr_retry_count, 3, 0));
  store_u8(p + 51, bits(req.cm_retries, 4, 4) | bits(req.srq, 1, 3) | bits(req.extended_transport, 3, 0));
  emit_path(req.path, p + kPathAt);
  store_data(req.private_data, p + 140);
}

CmMra parse_mra(const std::byte* p) {
  auto mra = with_ids<CmMra>(p);
  mra.answered = CmAnswered{field(load_u8(p + 8), 2, 6)};
  mra.service_timeout = field(load_u8(p + 9), 5, 3);
  load_data(p + 10, mra.private_data);
  return mra;
}
void emit(const CmMra& mra, std::byte* p) {
  store_ids(mra, p);
  store_u8(p + 8, bits(static_cast<unsigned>(mra.answered), 2, 6));
  store_u8(p + 9, bits(mra.service_timeout, 5, 3));
  store_data(mra.private_data, p + 10);
}

CmRej parse_rej(const std::byte* p) {
  auto rej = with_ids<CmRej>(p);
  rej.answered = CmAnswered{field(load_u8(p + 8), 2, 6)};
  rej.information_length = std::min<std::uint8_t>(field(load_u8(p + 9), 7, 1), 72);
  rej.reason = load_be16(p + 10);
  std::copy_n(p + 12, rej.information.size(), rej.information.begin());
  load_data(p + 84, rej.private_data);
  return rej;
}
void emit(const CmRej& rej, std::byte* p) {
  store_ids(rej, p);
  store_u8(p + 8, bits(static_cast<unsigned>(rej.answered), 2, 6));
  store_u8(p + 9, bits(rej.information_length, 7, 1));
  store_be16(p + 10, rej.reason);
  std::copy(rej.information.begin(), rej.information.end(), p + 12);
  store_data(rej.private_data, p + 84);
}

CmRep parse_rep(const std::byte* p, std::uint32_t modifier) {
  auto rep = with_ids<CmRep>(p);
  rep.qkey = load_be32(p + 8);
  rep.qpn = load_be24(p + 12);
  rep.eecn = load_be24(p + 16);
  rep.first_psn = Psn{load_be24(p + 20)};
  rep.ece.vendor_id = std::uint32_t{load_u8(p + 15)} << 16 | std::uint32_t{load_u8(p + 19)} << 8 | load_u8(p + 23);
  rep.ece.modifier = modifier;
  rep.responder_resources = load_u8(p + 24);
  rep.initiator_depth = load_u8(p + 25);
  rep.target_ack_delay = field(load_u8(p + 26), 5, 3);
  rep.failover = field(load_u8(p + 26), 2, 1);
  rep.flow_control = field(load_u8(p + 26), 1, 0) != 0;
  rep.rnr_retry_count = field(load_u8(p + 27), 3, 5);
  rep.srq = field(load_u8(p + 27), 1, 4) != 0;
  rep.ca_guid = load_be64(p + 28);
  load_data(p + 36, rep.private_data);
  return rep;
}
void emit(const CmRep& rep, std::byte* p) {
  store_ids(rep, p);
  store_be32(p + 8, rep.qkey);
  store_be32(p + 12, with_byte(rep.qpn, rep.ece.vendor_id >> 16));
  store_be32(p + 16, with_byte(rep.eecn, rep.ece.vendor_id >> 8));
  store_be32(p + 20, with_byte(rep.first_psn.value(), rep.ece.vendor_id));
  store_u8(p + 24, rep.responder_resources);
  store_u8(p + 25, rep.initiator_depth);
  store_u8(p + 26, bits(rep.target_ack_delay, 5, 3) | bits(rep.failover, 2, 1) | bits(rep.flow_control, 1, 0));
  store_u8(p + 27, bits(rep.rnr_retry_count, 3, 5) | bits(rep.srq, 1, 4));
  store_be64(p + 28, rep.ca_guid);
  store_data(rep.private_data, p + 36);
}

CmRtu parse_rtu(const std::byte* p) {
  auto rtu = with_ids<CmRtu>(p);
  load_data(p + 8, rtu.private_data);
  return rtu;
}
void emit(const CmRtu& rtu, std::byte* p) {
  store_ids(rtu, p);
  store_data(rtu.private_data, p + 8);
}

CmDreq parse_dreq(const std::byte* p) {
  auto dreq = with_ids<CmDreq>(p);
  dreq.remote_qpn = load_be24(p + 8);
  load_data(p + 12, dreq.private_data);
  return dreq;
}
void emit(const CmDreq& dreq, std::byte* p) {
  store_ids(dreq, p);
  store_be32(p + 8, with_byte(dreq.remote_qpn, 0));
  store_data(dreq.private_data, p + 12);
}

CmDrep parse_drep(const std::byte* p) {
  auto drep = with_ids<CmDrep>(p);
  load_data(p + 8, drep.private_data);
  return drep;
}
void emit(const CmDrep& drep, std::byte* p) {
  store_ids(drep, p);
  store_data(drep.private_data, p + 8);
}

CmSidrReq parse_sidr_req(const std::byte* p) {
  CmSidrReq req;
  req.request_id = load_be32(p);
  req.pkey = load_be16(p + 4);
  req.service_id = load_be64(p + 8);
  load_data(p + 16, req.private_data);
  return req;
}
void emit(const CmSidrReq& req, std::byte* p) {
  store_be32(p, req.request_id);
  store_be16(p + 4, req.pkey);
  store_be64(p + 8, req.service_id);
  store_data(req.private_data, p + 16);
}

CmSidrRep parse_sidr_rep(const std::byte* p) {
  CmSidrRep rep;
  rep.request_id = load_be32(p);
  rep.status = load_u8(p + 4);
  rep.qpn = load_be24(p + 8);
  rep.service_id = load_be64(p + 12);
  rep.qkey = load_be32(p + 20);
  load_data(p + 96, rep.private_data);
  return rep;
}
void emit(const CmSidrRep& rep, std::byte* p) {
  store_be32(p, rep.request_id);
  store_u8(p + 4, rep.status);
  store_be32(p + 8, with_byte(rep.qpn, 0));
  store_be64(p + 12, rep.service_id);
  store_be32(p + 20, rep.qkey);
  store_data(rep.private_data, p + 96);
}

void emit(const CmLap& lap, std::byte* p) { store_ids(lap, p); }
CmApr parse_apr(const std::byte* p) {
  auto apr = with_ids<CmApr>(p);
  apr.status = load_u8(p + 9);
  return apr;
}
void emit(const CmApr& apr, std::byte* p) {
  store_ids(apr, p);
  store_u8(p + 9, apr.status);
}

std::optional<CmMessage> parse_message(const MadHeader& header, const std::byte* p) {
  switch (header.attribute) {
    case CmReq::kAttribute:
      return parse_req(p, header.attribute_modifier);
    case CmMra::kAttribute:
      return parse_mra(p);
    case CmRej::kAttribute:
      return parse_rej(p);
    case CmRep::kAttribute:
      return parse_rep(p, header.attribute_modifier);
    case CmRtu::kAttribute:
      return parse_rtu(p);
    case CmDreq::kAttribute:
      return parse_dreq(p);
    case CmDrep::kAttribute:
      return parse_drep(p);
    case CmSidrReq::kAttribute:
      return parse_sidr_req(p);
    case CmSidrRep::kAttribute:
      return parse_sidr_rep(p);
    case CmLap::kAttribute:
      return with_ids<CmLap>(p);
    case CmApr::kAttribute:
      return parse_apr(p);
    default:
      return std::nullopt;
  }
}

// With extended connection establishment, two messages carry half of it in the MAD's own header.
std::uint32_t modifier_of(const CmMessage& message) {
  if (const auto* req = std::get_if<CmReq>(&message)) return req->ece.modifier;
  if (const auto* rep = std::get_if<CmRep>(&message)) return rep->ece.modifier;
  return 0;
}

}  // namespace

std::optional<CmMad> parse_cm(MadBytes mad) {
  const auto header = parse_mad_header(mad);
  if (!header || header->management_class != kCmClass || header->class_version != kCmClassVersion ||
      header->method != kCmMethodSend)
    return std::nullopt;
  auto message = parse_message(*header, mad.data() + kMadHeaderSize);
  if (!message) return std::nullopt;
  return CmMad{.transaction = header->transaction, .message = *std::move(message)};
}

void emit_cm(const CmMad& mad, MadBuffer out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  const std::uint16_t attribute =
      std::visit([](const auto& m) { return std::remove_cvref_t<decltype(m)>::kAttribute; }, mad.message);
  emit_mad_header({.management_class = kCmClass,
                   .class_version = kCmClassVersion,
                   .method = kCmMethodSend,
                   .transaction = mad.transaction,
                   .attribute = attribute,
                   .attribute_modifier = modifier_of(mad.message)},
                  out.data());
  std::visit([&](const auto& m) { emit(m, out.data() + kMadHeaderSize); }, mad.message);
}

}  // namespace brdma::wire
