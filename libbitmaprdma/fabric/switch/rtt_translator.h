// fabric/switch/rtt_translator.h - turns ECN marks on a flow's packets into round-trip time on its acknowledgements
// (ER-14). A sender controlled by round-trip times learns of congestion half a round trip or more sooner than by an
// echo of the mark, without ECN.
//
// Pairing. A RoCEv2 packet names only its destination queue pair, so a switch cannot match acknowledgements to it.
// Bitmap mode's packets carry both numbers. A flow goes from one queue pair to another on one path:
//   forward    requests of bitmap mode: source, destination, both queue pairs, path id
//   returning  bitmap acknowledgements and piggybacked ACKs: the same with sides exchanged; the path of the echoed
//              packet
// Packets that it cannot pair (standard peers, READ responses, UC, UD) are untranslated: their mark stays.
//
// Rewriting. Tr + increment (default) or echo - increment; either way the sender's `now - echo - (made - Tr)` grows by
// it. The ICRC is updated by the effect of the change, without reading the packet.
// Flows not seen for `silence` are replaced by others; a full table leaves new flows untranslated. No allocation after
// construction.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/units.h"
#include "fabric/switch/mark_translation.h"
#include "fabric/switch/rtt_increment.h"

namespace brdma::fabric {

class RttTranslator {
 public:
  struct Config {
    IncrementConfig increment{};
    Rewrite rewrite = Rewrite::kTr;
    std::size_t flows_max = 4096;
    Duration silence = 100_ms;
  };
  struct Counters {
    std::uint64_t forward = 0;       // packets of flows
    std::uint64_t marked = 0;        // of these
    std::uint64_t returning = 0;     // acknowledgements of flows
    std::uint64_t rewritten = 0;     // of these
    std::uint64_t untranslated = 0;  // marked packets of no flow: the mark stays
    std::uint64_t table_full = 0;    // packets of flows without a place
  };

  explicit RttTranslator(const Config& config);
  // From now on, while traffic runs (design ER-17). Flows keep their level and their counts, which start again only
  // where these would have another meaning: another window or N, or from windows to steps. Counters go on.
  void configure(const IncrementConfig& increment, Rewrite rewrite);

  // A RoCE packet passes: `payload` is UDP's, BTH to ICRC. `marked`: it carries CE, or the switch would set it.
  // Rewrites an acknowledgement in place. True: the mark has been taken over; send the packet without one.
  bool pass(const IpAddress& source, const IpAddress& destination, MutableBytes payload, bool marked, Instant now);

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] std::size_t flows() const { return count_; }

 private:
  struct Key {
    IpAddress source, destination;
    std::uint32_t source_qpn = 0, destination_qpn = 0;
    std::uint8_t path = 0;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct Flow {
    Key key;
    MarkCounter marks;
    bool used = false;
    Instant seen;
  };
  struct EchoOffsets {  // in the payload of an acknowledgement
    std::size_t echo = 0, tr = 0;
  };
  struct Echo {
    std::uint32_t source_qpn = 0;  // of the acknowledgement
    std::uint8_t path = 0;         // of the echoed packet
    EchoOffsets at;
  };
  static constexpr std::size_t kProbesMax = 8;

  // Nothing: the acknowledgement is not ours, too short, or echoes no packet.
  [[nodiscard]] static std::optional<Echo> echo_of_bitmap_ack(ConstBytes payload);
  [[nodiscard]] static std::optional<Echo> echo_of_piggyback(ConstBytes payload, std::uint32_t source_qpn);
  // True: a packet of a flow, and its mark counts.
  bool take(const IpAddress& source, const IpAddress& destination, MutableBytes payload, bool marked, Instant now);
  bool take_forward(const Key& key, bool marked, Instant now);  // likewise
  void take_returning(const Key& key, MutableBytes payload, EchoOffsets at);
  [[nodiscard]] std::size_t place_of(const Key& key) const;
  [[nodiscard]] Flow* find(const Key& key);
  [[nodiscard]] Flow* find_or_make(const Key& key, Instant now);
  void rewrite(MutableBytes payload, EchoOffsets offsets, Duration increment);

  Config config_;
  std::vector<Flow> flows_;  // a power of two; linear probing over kProbesMax places
  std::size_t count_ = 0;
  Counters counters_;
};

}  // namespace brdma::fabric
