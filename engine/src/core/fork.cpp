#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <tandem/detail/fork.hpp>
#include <tandem/detail/poller.hpp>
#include <vector>

namespace tandem::detail {

std::atomic<std::atomic<std::uint32_t>*> process_word{nullptr};

namespace {

constexpr std::size_t page_bytes = 4096;

/// Identity of a file: its descriptor may have been reused for another file since.
struct file_id {
  dev_t device = 0;
  ino_t inode = 0;  // 0: unknown descriptor
};

file_id id_of(int descriptor) noexcept {
  struct stat about {};
  if (::fstat(descriptor, &about) != 0) return {};
  return {about.st_dev, about.st_ino};
}

struct mapping {
  std::size_t bytes = 0;
  inherited_as how = inherited_as::zeros;
  int file = -1;
};

/// Descriptors and mappings that a child of fork() must not share with its parent. The lock is held
/// across fork(), so the child gets a consistent state and no socket that is being opened is
/// missed.
class fork_guard {
 public:
  /// Never destroyed: static objects may be destroyed after it.
  static fork_guard& get() {
    static auto& instance = *new fork_guard;
    return instance;
  }

  std::mutex& lock() noexcept { return mutex_; }

  /// @pre the lock is held.
  void add(int descriptor) noexcept {
    if (descriptor < 0) return;
    try {
      const auto at = static_cast<std::size_t>(descriptor);
      if (at >= files_.size()) files_.resize(at + at / 2 + 1);
      files_[at] = id_of(descriptor);
    } catch (const std::bad_alloc&) {  // then a child of fork() inherits it
    }
  }

  void add(void* base, const mapping& one) noexcept {
    const std::lock_guard held(mutex_);
    try {
      mappings_[base] = one;
    } catch (const std::bad_alloc&) {
    }
  }

  void forget(void* base) noexcept {
    const std::lock_guard held(mutex_);
    mappings_.erase(base);
  }

 private:
  fork_guard() {
    void* const page =
        ::mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    word_ =
        page == MAP_FAILED ? new std::atomic<std::uint32_t> : new (page) std::atomic<std::uint32_t>;
    if (page != MAP_FAILED) ::madvise(page, page_bytes, MADV_WIPEONFORK);
    process_word.store(word_, std::memory_order_release);
    ::pthread_atfork([] { get().mutex_.lock(); }, [] { get().mutex_.unlock(); },
                     [] { get().become_child(); });
  }

  /// Takes no lock but that of `malloc`, which fork() keeps usable: other threads of the parent may
  /// have held any other lock.
  void become_child() noexcept {
    word_->store(0, std::memory_order_relaxed);
    const int empty = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (files_[i].inode == 0) continue;
      const int descriptor = static_cast<int>(i);
      const file_id now = id_of(descriptor);
      if (now.inode != files_[i].inode || now.device != files_[i].device) continue;
      if (empty < 0 || ::dup3(empty, descriptor, O_CLOEXEC) < 0) ::close(descriptor);
      files_[i] = {};
    }
    if (empty >= 0) ::close(empty);
    for (const auto& [base, one] : mappings_) replace(base, one);
    mappings_.clear();
    mutex_.unlock();
  }

  static void replace(void* base, const mapping& one) noexcept {
    constexpr int access = PROT_READ | PROT_WRITE;
    void* made = MAP_FAILED;
    if (one.how == inherited_as::copy) {
      made = ::mmap(base, one.bytes, access, MAP_PRIVATE | MAP_FIXED, one.file, 0);
    }
    if (made == MAP_FAILED) {
      ::mmap(base, one.bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
             0);
    }
  }

  std::mutex mutex_;
  std::atomic<std::uint32_t>* word_;
  std::vector<file_id> files_;  // by descriptor
  std::map<void*, mapping> mappings_;
};

/// The number of this process: one more than the number of its ancestors that used the library.
std::uint32_t number_of_process() noexcept {
  static std::atomic<std::uint32_t> last{0};
  fork_guard::get();
  std::atomic<std::uint32_t>& word = *process_word.load(std::memory_order_acquire);
  std::uint32_t found = word.load(std::memory_order_acquire);
  if (found != 0) return found;
  const std::uint32_t next = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return word.compare_exchange_strong(found, next, std::memory_order_acq_rel) ? next : found;
}

}  // namespace

process_origin::process_origin() noexcept : number_(number_of_process()) {}

void process_origin::throw_used_after_fork(std::string_view what) {
  throw used_after_fork(what);
}

error used_after_fork(std::string_view what) {
  return error(
      errc::used_after_fork,
      fmt::format("process {} is a fork of the process that created {}", ::getpid(), what),
      "use it in the process that created it; start processes that need a job of their own by "
      "exec (spawn) instead of fork");
}

int open_socket(int family, int type, int protocol) noexcept {
  fork_guard& guard = fork_guard::get();
  const std::lock_guard held(guard.lock());
  const int fd = ::socket(family, type | SOCK_CLOEXEC, protocol);
  if (fd >= 0) guard.add(fd);
  return fd;
}

int accept_socket(int listener) noexcept {
  fork_guard& guard = fork_guard::get();
  const std::lock_guard held(guard.lock());
  int fd = -1;
  do {
    fd = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  } while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
  if (fd >= 0) guard.add(fd);
  return fd;
}

void hide_from_children(int descriptor) noexcept {
  fork_guard& guard = fork_guard::get();
  const std::lock_guard held(guard.lock());
  guard.add(descriptor);
}

void hide_from_children(void* base, std::size_t bytes, inherited_as how, int file) noexcept {
  fork_guard::get().add(base, {bytes, how, file});
}

void forget_mapping(void* base) noexcept {
  fork_guard::get().forget(base);
}

void require_own_context(const asio::any_io_executor& executor) {
  poller::of(executor).require_own_process();
}

}  // namespace tandem::detail
