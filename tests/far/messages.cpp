#include "far/messages.hpp"

namespace tandem::test::far {

void put_code(packer& into, const error_code& code) {
  into.put(code.category() == category()).put(code.value());
}

error_code take_code(unpacker& from) {
  const bool is_ours = from.take<bool>();
  const int value = from.take<int>();
  return is_ours ? error_code(value, category())
                 : error_code(value, boost::system::system_category());
}

void put_error(packer& into, const error& failure) {
  const error_context& at = failure.context();
  put_code(into, failure.code());
  into.put(at.rank).put(at.peer).put_text(at.rail).put_text(at.phase);
  into.put(at.bytes_done).put(at.bytes_total).put_text(at.detail).put_text(at.advice);
}

error take_error(unpacker& from) {
  const error_code code = take_code(from);
  error_context at;
  at.rank = from.take<int>();
  at.peer = from.take<int>();
  at.rail = from.text();
  at.phase = from.text();
  at.bytes_done = from.take<std::int64_t>();
  at.bytes_total = from.take<std::int64_t>();
  at.detail = from.text();
  at.advice = from.text();
  return error(code, std::move(at));
}

/// The options that differ from their defaults.
void put_settings(packer& into, const settings& options) {
  const settings usual;
  std::vector<const option*> changed;
  for (const option& each : option_table()) {
    if (each.get(options) != each.get(usual)) changed.push_back(&each);
  }
  into.put(changed.size());
  for (const option* each : changed) into.put_text(each->name).put_text(each->get(options));
}

settings take_settings(unpacker& from) {
  settings made;
  for (auto left = from.take<std::size_t>(); left > 0; --left) {
    const std::string_view name = from.text();
    made.set(name, from.text());
  }
  return made;
}

void put_limits(packer& into, const channel_limits& limits) {
  into.put(limits.kinds.size());
  for (const memory_kind each : limits.kinds) into.put(each);
  into.put(limits.max_message_bytes).put(limits.eager_bytes).put(limits.chunk_bytes);
  into.put(limits.max_flows);
}

channel_limits take_limits(unpacker& from) {
  channel_limits made;
  made.kinds.resize(from.take<std::size_t>());
  for (memory_kind& each : made.kinds) each = from.take<memory_kind>();
  made.max_message_bytes = from.take<std::size_t>();
  made.eager_bytes = from.take<std::size_t>();
  made.chunk_bytes = from.take<std::size_t>();
  made.max_flows = from.take<std::size_t>();
  return made;
}

}  // namespace tandem::test::far
