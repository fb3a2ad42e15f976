// device/device_use.h: limits hold for all programs of a device together. tests design BR-37
#include "device/device_use.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <limits>
#include <memory>

#include "support/two_engines.h"
#include "trace/journal.h"

namespace brdma::test {
namespace {

constexpr std::uint64_t kDevice = 77, kOtherDevice = 78;

// Two engines as two programs of one device, and a third's use.
class LimitsOfADevice : public testing::Test {
 protected:
  LimitsOfADevice() {
    table->rows_end = 12;
    table->rows[2].device = table->rows[3].device = kDevice;
    for (std::size_t i = 0; i < 2; ++i) {
      journals[i] = std::make_unique<trace::Journal>(rings[i], pair.side[i].statistics);
      pair.side[i].engine->set_journal(journals[i].get());
      pair.side[i].engine->share_limits(DeviceUse{*table, 2 + i});
    }
  }
  static PairOptions options() {
    PairOptions options;
    options.connect = false;  // each has one queue pair
    options.recovery.qps_max = 4;
    options.recovery.device_state_bytes_max = 1u << 20;
    return options;
  }
  Result<QueuePair*, Status> create(std::size_t i) {
    QpCreate request;
    request.pd = pair.side[i].pd;
    request.send_cq = pair.side[i].send_cq;
    request.receive_cq = pair.side[i].receive_cq;
    return pair.side[i].engine->create_qp(request);
  }
  std::vector<trace::EventRecord> events(std::size_t i) {
    std::vector<trace::EventRecord> records;
    trace::read_events(rings[i], rings[i].read, records);
    return records;
  }
  std::unique_ptr<UseTable> table = std::make_unique<UseTable>();
  TwoEngines pair{options()};
  trace::EventRing rings[2];
  std::unique_ptr<trace::Journal> journals[2];
};

TEST_F(LimitsOfADevice, QueuePairsOfAllProgramsCount) {
  EXPECT_EQ(table->rows[2].queue_pairs, 1u) << "earlier use is reported";
  const auto third = create(0), fourth = create(1);
  ASSERT_TRUE(third);
  ASSERT_TRUE(fourth);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto refused = create(i);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.reason().error(), ENOMEM);
    EXPECT_EQ(table->rows[2 + i].queue_pairs, 2u) << "a refusal leaves no trace";
    const auto reported = events(i);
    ASSERT_EQ(reported.size(), 1u);
    EXPECT_EQ(reported[0].type, trace::EventType::kLimitReached);
    EXPECT_EQ(reported[0].values,
              (std::array<std::uint64_t, 3>{static_cast<std::uint64_t>(trace::Limit::kQueuePairs), 4, 4}));
  }
  ASSERT_TRUE(pair.side[0].engine->destroy_qp(third.value()).ok());
  EXPECT_TRUE(create(1)) << "what one gives back the other may have";
  EXPECT_FALSE(create(0));
}

TEST_F(LimitsOfADevice, ARowOfAnotherDeviceOrOfALeaseThatEndedDoesNotCount) {
  table->rows[9] = {kOtherDevice, 100, 1u << 30, 0};
  table->rows[10] = {0, 100, 1u << 30, 0};
  EXPECT_TRUE(create(0));
  table->rows[9].device = kDevice;
  EXPECT_FALSE(create(0));
  table->rows[9] = {};
  EXPECT_TRUE(create(0));
}

TEST_F(LimitsOfADevice, StateOfAllProgramsCounts) {
  table->rows[9] = {kDevice, 0, (1u << 20) - 1, 0};
  EXPECT_TRUE(create(0));
  table->rows[9].state_bytes = 1u << 20;
  EXPECT_FALSE(create(0));
  const auto reported = events(0);
  ASSERT_EQ(reported.size(), 1u);
  EXPECT_EQ(reported[0].values,
            (std::array<std::uint64_t, 3>{static_cast<std::uint64_t>(trace::Limit::kDeviceState), 1u << 20, 1u << 20}));
}

TEST_F(LimitsOfADevice, RowsThatLieRefuseAndDoNoOtherHarm) {
  constexpr std::uint64_t kHuge = std::numeric_limits<std::uint64_t>::max();
  table->rows[9] = table->rows[10] = {kDevice, kHuge, kHuge, 0};
  EXPECT_FALSE(create(0));
  table->rows_end = kHuge;
  EXPECT_FALSE(create(0));
  table->rows[9] = table->rows[10] = {};
  EXPECT_TRUE(create(0));
}

}  // namespace
}  // namespace brdma::test
