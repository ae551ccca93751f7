#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <tandem/channel.hpp>
#include <tandem/detail/meter.hpp>
#include <tandem/detail/poller.hpp>
#include <vector>

#include "transports/rails/core.hpp"
#include "transports/rails/lane_reader.hpp"
#include "transports/rails/lane_writer.hpp"
#include "transports/rails/nic/lane_connection.hpp"
#include "transports/rails/nic/nic.hpp"

namespace tandem::rails {

/// The lanes of one link: their connections, by index, and what is read from them and written to
/// them for the core. Used on the link's executor.
class lane_set final : private pollable {
 public:
  /// The link, which is kept alive by pending waits of its lanes.
  class owner {
   public:
    virtual std::shared_ptr<void> keep_alive() = 0;
    /// Something was received, or a closed lane is quiesced.
    virtual void after_event() = 0;
    /// Operations may be done.
    virtual void complete_soon() = 0;
    /// The peer violates the protocol: the channel ends.
    virtual void broken(const std::string& why) = 0;

   protected:
    ~owner() = default;
  };

  lane_set(const asio::any_io_executor& executor, core& state, owner& of, std::size_t lanes);

  std::size_t size() const noexcept { return lanes_.size(); }
  /// Null: not connected.
  lane_connection* connection(std::size_t index) const noexcept {
    return lanes_[index] ? lanes_[index]->over.get() : nullptr;
  }
  /// Replaces the connection of a lane. @pre the core accepts the epoch
  void attach(std::uint16_t index, std::uint32_t epoch, std::unique_ptr<lane_connection> over,
              std::string name);
  /// Closes a connected lane by a reset, which reaches the peer at once and discards what the
  /// kernel still holds.
  void lose(std::uint16_t index, const std::string& why);
  /// Loses the lanes that use this interface.
  void lose_on(const nic& which, const std::string& why);
  /// Loses the lanes that the core has given up.
  void lose_given_up();
  /// Closes every lane, with what was written before.
  void close();
  /// Drops every connection, without a word to the core.
  void drop() noexcept;

  /// Reads what has arrived on every lane, and adapts the limits of unsent bytes.
  void read_all();
  /// Writes what the core has to send, as far as the connections accept it.
  void flush();
  /// A connection holds bytes that are not with the kernel or the NIC yet.
  bool has_unsent() const noexcept;
  /// Copies the payloads still to be written, as the operations that own them end.
  void copy_payloads();
  /// As `channel::is_zero_copy`; standby lanes are not considered.
  bool is_zero_copy(const const_view& view) const;
  std::vector<rail_stats> rails() const;

 private:
  struct lane {
    lane(core& state, std::uint16_t number, std::unique_ptr<lane_connection> connected)
        : index(number), over(std::move(connected)), reader(state, number), writer(state, number) {}
    std::uint16_t index;
    std::unique_ptr<lane_connection> over;
    lane_reader reader;
    lane_writer writer;
    bool open = true;
    bool armed = false;
    bool blocked = false;
    int empty_polls = 0;
    int unsent_bytes = 0;         // limit of what the kernel holds unsent (TCP_NOTSENT_LOWAT)
    double peak_bytes_per_s = 0;  // recent
  };
  using lane_ptr = std::shared_ptr<lane>;
  struct loss_record {
    std::uint32_t count = 0;
    std::string why;  ///< the last
  };

  bool read_ready(lane& from, core::time_point now);
  bool read_some(lane& from, core::time_point now);
  bool poll() override;
  void arm() override;
  void arm(const lane_ptr& which);
  bool write_some(const lane_ptr& to, core::time_point now);
  void readable(lane& which, const error_code& failure);
  void wait_for_room(const lane_ptr& to);
  void writable(lane& which, const error_code& failure);
  void bound_unsent(lane& of);
  void lose(lane& which, const std::string& why);
  void close(lane& which, bool reset);
  void watch_placements(lane& of);
  /// Owns the link.
  std::shared_ptr<lane_set> shared() { return {owner_.keep_alive(), this}; }

  core& core_;
  owner& owner_;
  std::vector<lane_ptr> lanes_;  // null: not connected
  std::vector<std::string> names_;
  std::vector<loss_record> losses_;
  std::vector<detail::rail_meter> meters_;
};

}  // namespace tandem::rails
