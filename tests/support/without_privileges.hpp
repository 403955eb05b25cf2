// Files as somebody sees them who is not root: root reads and writes everything, so tests of permissions prove nothing there.
#pragma once

#include <sys/fsuid.h>

namespace saeta::support {

/// The calling thread opens files as the user "nobody" until the end of the scope, where it is root's; nothing otherwise.
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
