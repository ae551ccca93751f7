// What most tests read anyway, beside cmake/precompiled.hpp; only build time depends on it.
#pragma once

#include <gtest/gtest.h>

#include <tandem/tandem.hpp>
