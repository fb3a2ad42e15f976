#include "controller-session/key_file.h"

#include <fcntl.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "controller-session/messages.h"

namespace brdma::session {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool parse_key(const std::string& text, Key& key) {
  if (text.size() != key.size() * 2) return false;
  for (std::size_t i = 0; i < key.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    key[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

}  // namespace

Keys read_keys(const std::string& path) {
  std::ifstream file(path);
  struct stat about {};
  if (!file || ::stat(path.c_str(), &about) != 0) {
    throw std::runtime_error("cannot read the key file " + path + ": " + std::strerror(errno));
  }
  if ((about.st_mode & 077) != 0) throw std::runtime_error("others may read the key file " + path + ": chmod 600 it");
  Keys keys;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string name, text, more;
    if (!(words >> name)) continue;
    Key key{};
    if (!(words >> text) || (words >> more) || !parse_key(text, key) || (name != kAnybody && !good_name(name))) {
      throw std::runtime_error(path + ":" + std::to_string(number) + ": expected a name and 64 hexadecimal digits");
    }
    keys[name] = key;
  }
  if (keys.empty()) throw std::runtime_error("no key in " + path);
  return keys;
}

Keys key_of(const Keys& keys, const std::string& name) {
  if (name.empty()) {
    if (keys.size() != 1) throw std::runtime_error("expected one key, or the name of one");
    return keys;
  }
  auto key = keys.find(name);
  if (key == keys.end()) key = keys.find(kAnybody);
  if (key == keys.end()) throw std::runtime_error("the key file has no key for " + name);
  return {*key};
}

Key make_key() {
  Key key{};
  if (RAND_bytes(key.data(), static_cast<int>(key.size())) != 1) throw std::runtime_error("no random numbers");
  return key;
}

std::string key_line(std::string_view name, const Key& key) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string line = std::string{name} + " ";
  for (const unsigned char byte : key) {
    line += kDigits[byte >> 4];
    line += kDigits[byte & 15];
  }
  return line + "\n";
}

void write_new_keys(const std::string& path, const Keys& keys) {
  std::string text;
  for (const auto& [name, key] : keys) text += key_line(name, key);
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) throw std::runtime_error("cannot make " + path + ": " + std::strerror(errno));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (::close(fd) != 0 || !written) throw std::runtime_error("cannot write " + path + ": " + std::strerror(errno));
}

}  // namespace brdma::session
