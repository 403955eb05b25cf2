// Opens files without root's privileges, so that tests of file permissions also work for root.
#pragma once

#include <sys/fsuid.h>

namespace saeta::support {

/// If the process runs as root, the calling thread accesses files as the user "nobody" until the end of the
/// scope.
class without_privileges {
public:
  without_privileges() : user_(::setfsuid(nobody)), group_(::setfsgid(nobody)) {}
  without_privileges(const without_privileges&) = delete;
  without_privileges& operator=(const without_privileges&) = delete;
  ~without_privileges() {
    ::setfsgid(static_cast<gid_t>(group_));
    ::setfsuid(static_cast<uid_t>(user_));
  }

private:
  static constexpr unsigned nobody = 65534;
  int user_;
  int group_;
};

} // namespace saeta::support
