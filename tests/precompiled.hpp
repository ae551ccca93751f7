// What most tests read anyway; only build time depends on it.
#pragma once

#include <gtest/gtest.h>

#include <tandem/tandem.hpp>

#include "../cmake/precompiled.hpp"
