#include "collector/access.h"

#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <linux/xattr.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tensortap::collector {

namespace {

constexpr std::uint16_t kReadAndEnter = ACL_READ | ACL_EXECUTE;
constexpr std::uint16_t kAll = ACL_READ | ACL_WRITE | ACL_EXECUTE;

// The kernel's own form (linux/posix_acl_xattr.h), little endian: an owner, one more user, nobody else.
struct List {
  posix_acl_xattr_header header{POSIX_ACL_XATTR_VERSION};
  std::array<posix_acl_xattr_entry, 5> entries;
};
static_assert(sizeof(List) == sizeof(posix_acl_xattr_header) + 5 * sizeof(posix_acl_xattr_entry));

List list_for(std::uint32_t uid) {
  constexpr auto kNobody = static_cast<std::uint32_t>(ACL_UNDEFINED_ID);
  List list;
  list.entries = {{{ACL_USER_OBJ, kAll, kNobody},
                   {ACL_USER, kReadAndEnter, uid},
                   {ACL_GROUP_OBJ, 0, kNobody},
                   {ACL_MASK, kReadAndEnter, kNobody},
                   {ACL_OTHER, 0, kNobody}}};
  return list;
}

}  // namespace

format::Status let_read(const std::string& folder, std::uint64_t uid) {
  const List list = list_for(static_cast<std::uint32_t>(uid));
  for (const char* name : {XATTR_NAME_POSIX_ACL_ACCESS, XATTR_NAME_POSIX_ACL_DEFAULT}) {
    if (::setxattr(folder.c_str(), name, &list, sizeof list, 0) != 0) {
      return format::Error{format::ErrorCode::kIo,
                           "cannot let user " + std::to_string(uid) + " read it: " + std::strerror(errno),
                           folder};
    }
  }
  return {};
}

}  // namespace tensortap::collector
