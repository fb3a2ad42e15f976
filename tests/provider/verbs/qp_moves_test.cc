// Every transition of a queue pair's state with its attributes, through ibv_modify_qp: required, optional and forbidden
// ones. The table is IBTA's (10.3.1, and the modifiers of Modify QP in chapter 11), written a second time.
#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "provider/verbs_fixture.h"

namespace brdma::test {
namespace {

struct Move {
  ibv_qp_type type;
  ibv_qp_state from, to;
  int required, optional;
};

constexpr int kPath = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
constexpr int kResponder = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRequester = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;

// Transitions that are not here are forbidden, except those to RESET and ERR, which are always allowed and take
// nothing. Migration to an alternate path (IBV_QP_ALT_PATH, IBV_QP_PATH_MIG_STATE) is not supported.
constexpr std::array kMoves{
    Move{IBV_QPT_RC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    Move{IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    Move{IBV_QPT_RC, IBV_QPS_INIT, IBV_QPS_RTR, kPath | kResponder, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    Move{IBV_QPT_RC, IBV_QPS_RTR, IBV_QPS_RTS, kRequester | IBV_QP_SQ_PSN,
         IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    Move{IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    Move{IBV_QPT_RC, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    Move{IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER},
    Move{IBV_QPT_RC, IBV_QPS_SQD, IBV_QPS_SQD, 0,
         kRequester | kResponder | IBV_QP_PORT | IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},

    Move{IBV_QPT_UC, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
    Move{IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
    Move{IBV_QPT_UC, IBV_QPS_INIT, IBV_QPS_RTR, kPath, IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
    Move{IBV_QPT_UC, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    Move{IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    Move{IBV_QPT_UC, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    Move{IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS},
    Move{IBV_QPT_UC, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_AV | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},

    Move{IBV_QPT_UD, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
    Move{IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
    Move{IBV_QPT_UD, IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
    Move{IBV_QPT_UD, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    Move{IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    Move{IBV_QPT_UD, IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    Move{IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
    Move{IBV_QPT_UD, IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
};

constexpr int kAttributeBits = 26;  // IBV_QP_RATE_LIMIT is the last
constexpr int kFeatures = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE | IBV_QP_RATE_LIMIT;

const Move* find(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to) {
  for (const Move& move : kMoves) {
    if (move.type == type && move.from == from && move.to == to) return &move;
  }
  return nullptr;
}

class Moves : public testing::TestWithParam<ibv_qp_type> {
 protected:
  Moves() : side(Side::make()) {}

  // Valid values for every attribute.
  [[nodiscard]] ibv_qp_attr values(ibv_qp_state from, ibv_qp_state to) const {
    ibv_qp_attr out{};
    out.qp_state = to;
    out.cur_qp_state = from;
    out.path_mtu = IBV_MTU_1024;
    out.port_num = 1;
    out.dest_qp_num = side.qp->qp_num;
    out.timeout = 14;
    out.retry_cnt = 7;
    out.rnr_retry = 7;
    out.max_rd_atomic = 1;
    out.max_dest_rd_atomic = 1;
    out.min_rnr_timer = 12;
    out.qkey = 0x1234;
    out.ah_attr.is_global = 1;
    out.ah_attr.port_num = 1;
    out.ah_attr.grh.hop_limit = 1;
    EXPECT_EQ(ibv_query_gid(side.context.get(), 1, 0, &out.ah_attr.grh.dgid), 0);
    return out;
  }
  static int move(ibv_qp* qp, ibv_qp_attr values, int mask) { return ibv_modify_qp(qp, &values, IBV_QP_STATE | mask); }
  Owned<ibv_qp> make(ibv_qp_state state) {
    ibv_qp_init_attr wanted = usual_queue_pair(side.cq.get());
    wanted.qp_type = GetParam();
    Owned<ibv_qp> qp(ibv_create_qp(side.pd.get(), &wanted));
    if (state == IBV_QPS_RESET) return qp;
    if (state == IBV_QPS_ERR) {
      EXPECT_EQ(move(qp.get(), values(IBV_QPS_RESET, IBV_QPS_ERR), 0), 0);
      return qp;
    }
    constexpr std::array kWay{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD};
    for (std::size_t i = 1; i < kWay.size() && qp->state != state; ++i) {
      const Move* step = find(GetParam(), kWay[i - 1], kWay[i]);
      EXPECT_EQ(move(qp.get(), values(kWay[i - 1], kWay[i]), step->required), 0);
    }
    EXPECT_EQ(qp->state, state);
    return qp;
  }
  // On a fresh queue pair: returns ibv_modify_qp's result. A refused transition changes nothing.
  int try_move(ibv_qp_state from, ibv_qp_state to, int mask) {
    const auto qp = make(from);
    const int error = move(qp.get(), values(from, to), mask);
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(ibv_query_qp(qp.get(), &now, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(now.qp_state, error == 0 ? to : from);
    return error;
  }
  Side side;
};

TEST_P(Moves, TakeWhatTheTableSays) {
  for (const ibv_qp_state from : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR}) {
    for (const ibv_qp_state to :
         {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_SQE, IBV_QPS_ERR}) {
      const Move* listed = find(GetParam(), from, to);
      const bool always = to == IBV_QPS_RESET || to == IBV_QPS_ERR;
      const int required = listed != nullptr ? listed->required : 0;
      const int optional = listed != nullptr ? listed->optional : 0;
      SCOPED_TRACE("from " + std::to_string(from) + " to " + std::to_string(to));
      EXPECT_EQ(try_move(from, to, required), listed != nullptr || always ? 0 : EINVAL);
      if (listed == nullptr && !always) continue;
      EXPECT_EQ(try_move(from, to, required | optional), 0);
      for (int bit = 0; bit < kAttributeBits; ++bit) {
        const int attribute = 1 << bit;
        if (attribute == IBV_QP_STATE || (bit > 20 && bit < 25)) continue;  // 21 to 24 have no meaning
        SCOPED_TRACE("attribute " + std::to_string(bit));
        if ((required & attribute) != 0) {
          EXPECT_EQ(try_move(from, to, required & ~attribute), EINVAL) << "is required";
        } else if ((optional & attribute) != 0) {
          EXPECT_EQ(try_move(from, to, required | attribute), 0) << "is optional";
        } else if ((kFeatures & attribute) != 0) {
          EXPECT_EQ(try_move(from, to, required | attribute), EOPNOTSUPP);
        } else {
          EXPECT_EQ(try_move(from, to, required | attribute), EINVAL) << "does not belong here";
        }
      }
    }
  }
}

TEST_P(Moves, TheCurrentStateMustBeTheOneThatIsNamed) {
  const auto qp = make(IBV_QPS_RTS);
  EXPECT_EQ(move(qp.get(), values(IBV_QPS_RTR, IBV_QPS_RTS), IBV_QP_CUR_STATE), EINVAL);
  EXPECT_EQ(move(qp.get(), values(IBV_QPS_RTS, IBV_QPS_RTS), IBV_QP_CUR_STATE), 0);
}

TEST_P(Moves, QueriesReportCapabilitiesInEveryState) {
  for (const ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_SQD, IBV_QPS_ERR}) {
    const auto qp = make(state);
    ibv_qp_attr now{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &now, 0, &init), 0);
    EXPECT_EQ(now.qp_state, state);
    EXPECT_GE(now.cap.max_send_wr, 64u);
    EXPECT_GE(init.cap.max_recv_sge, 4u);
    EXPECT_EQ(init.qp_type, GetParam());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Moves, testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD), [](const auto& info) {
  return std::string(info.param == IBV_QPT_RC ? "rc" : info.param == IBV_QPT_UC ? "uc" : "ud");
});

}  // namespace
}  // namespace brdma::test
