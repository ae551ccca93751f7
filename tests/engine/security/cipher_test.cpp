#include <gtest/gtest.h>

#include <string>
#include <tandem/detail/cipher.hpp>
#include <tandem/error.hpp>
#include <vector>

namespace tandem::trust {
namespace {

using bytes = std::vector<std::byte>;

bytes from_hex(const std::string& text) {
  bytes made;
  for (std::size_t i = 0; i < text.size(); i += 2) {
    made.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return made;
}

template <class Array>
Array array_of(const std::string& hex) {
  const bytes all = from_hex(hex);
  Array made{};
  std::copy(all.begin(), all.end(), made.begin());
  return made;
}

/// McGrew and Viega, "The Galois/Counter Mode of Operation", appendix B.
struct known {
  std::string key, nonce, text, sealed, tag;
};
const std::vector<known> published{
    {std::string(64, '0'), std::string(24, '0'), std::string(32, '0'),
     "cea7403d4d606b6e074ec5d3baf39d18", "d0d1c8a799996bf0265b98b5d48ab919"},
    {"feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308", "cafebabefacedbaddecaf888",
     "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
     "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b391aafd255",
     "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
     "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662898015ad",
     "b094dac5d93471bdec1a502270e3cc6c"}};

secret key_of(const known& one) {
  return secret(std::span<const std::byte>(from_hex(one.key)));
}

TEST(cipher, published_values_in_any_pieces) {
  for (const known& one : published) {
    const bytes text = from_hex(one.text);
    cipher encrypt(key_of(one), cipher::direction::encrypt),
        decrypt(key_of(one), cipher::direction::decrypt);
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      bytes sealed(text.size()), opened(text.size());
      encrypt.begin(array_of<cipher::nonce>(one.nonce));
      encrypt.update(std::span(text).first(cut), sealed.data());
      encrypt.update(std::span(text).subspan(cut), sealed.data() + cut);
      const cipher::tag made = encrypt.finish();
      EXPECT_EQ(sealed, from_hex(one.sealed)) << cut;
      EXPECT_EQ(made, array_of<cipher::tag>(one.tag)) << cut;
      decrypt.begin(array_of<cipher::nonce>(one.nonce));
      decrypt.update(std::span(sealed).first(cut), opened.data());
      decrypt.update(std::span(sealed).subspan(cut), opened.data() + cut);
      EXPECT_TRUE(decrypt.verify(made)) << cut;
      EXPECT_EQ(opened, text) << cut;
    }
  }
}

TEST(cipher, different_key_gives_different_text) {
  const known& zeros = published[0];
  cipher encrypt(key_of(published[1]), cipher::direction::encrypt);
  encrypt.change_key(key_of(zeros));
  bytes text = from_hex(zeros.text);
  encrypt.begin(array_of<cipher::nonce>(zeros.nonce));
  encrypt.update(text, text.data());  // in place
  EXPECT_EQ(text, from_hex(zeros.sealed));
  EXPECT_EQ(encrypt.finish(), array_of<cipher::tag>(zeros.tag));
}

TEST(cipher, wrong_tag_is_refused_and_next_record_opens) {
  const known& one = published[1];
  cipher decrypt(key_of(one), cipher::direction::decrypt);
  for (std::size_t bit = 0; bit <= 8 * cipher::tag_bytes; ++bit) {
    cipher::tag given = array_of<cipher::tag>(one.tag);
    const bool is_good = bit == 8 * cipher::tag_bytes;
    if (!is_good) given[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    bytes text = from_hex(one.sealed);
    decrypt.begin(array_of<cipher::nonce>(one.nonce));
    decrypt.update(text, text.data());
    EXPECT_EQ(decrypt.verify(given), is_good) << bit;
  }
}

TEST(cipher, key_has_32_bytes) {
  const secret shorter(std::string_view("0123456789abcdef"));
  EXPECT_THROW(cipher(shorter, cipher::direction::encrypt), error);
  EXPECT_THROW(cipher(secret(), cipher::direction::decrypt), error);
}

}  // namespace
}  // namespace tandem::trust
