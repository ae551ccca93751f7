/// Everything of Tandem in one header, for programs; a library names the headers that it uses.
#pragma once

#include <tandem/async.hpp>
#include <tandem/channel.hpp>
#include <tandem/channels/devices.hpp>
#include <tandem/channels/local.hpp>
#include <tandem/channels/mixed.hpp>
#include <tandem/channels/rails.hpp>
#include <tandem/channels/shm.hpp>
#include <tandem/channels/tcp.hpp>
#include <tandem/collectives/collectives.hpp>
#include <tandem/collectives/communicator.hpp>
#include <tandem/collectives/pipeline.hpp>
#include <tandem/deadline.hpp>
#include <tandem/error.hpp>
#include <tandem/fabric.hpp>
#include <tandem/host.hpp>
#include <tandem/join.hpp>
#include <tandem/launch.hpp>
#include <tandem/log.hpp>
#include <tandem/memory.hpp>
#include <tandem/region.hpp>
#include <tandem/run.hpp>
#include <tandem/settings.hpp>
#include <tandem/store.hpp>
#include <tandem/version.hpp>
