// enable/attributes.h - user, group, mode and extended attributes (labels, access lists) of a file that is replaced.
#pragma once

#include <string>

namespace brdma::enable {

// Gives the file `name` in `folder` those of the open file `like`. `shown`: its path in errors. Throws EnableError.
void copy_attributes(int like, int folder, const std::string& name, const std::string& shown);

}  // namespace brdma::enable
