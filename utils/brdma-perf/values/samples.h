// values/samples.h - the names of utils/samples that brdma-perf uses.
#pragma once

#include "samples/errors.h"
#include "samples/quantities.h"
#include "samples/size_mix.h"
#include "samples/statistics.h"

namespace brdma::perf {

using samples::difference;
using samples::Difference;
using samples::Estimate;
using samples::fairness;
using samples::fixed;
using samples::kConfidence;
using samples::kSecond;
using samples::Misuse;
using samples::parse_bytes;
using samples::parse_time;
using samples::quantile;
using samples::quantile_ranks;
using samples::Ranks;
using samples::RunError;
using samples::series_mean;
using samples::SizeMix;
using samples::warmup_length;

}  // namespace brdma::perf
