#pragma once

#include <memory>
#include <string>
#include <tandem/settings.hpp>

#include "support/temporary_folder.hpp"

struct evp_pkey_st;
struct x509_st;

namespace tandem::test {

/// A certificate authority for a test, valid for an hour.
class authority {
 public:
  explicit authority(std::string name);
  ~authority();
  authority(const authority&) = delete;
  authority& operator=(const authority&) = delete;

  /// Settings of a rank with a certificate of this authority, which trusts those of `trusted`;
  /// valid from and until so many seconds from now.
  settings certify(const temporary_folder& in, const std::string& rank, const authority& trusted,
                   long begin_s = -60, long end_s = 3600) const;

 private:
  std::string name_;
  evp_pkey_st* key_;
  x509_st* certificate_;
};

}  // namespace tandem::test
