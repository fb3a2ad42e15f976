# The files that `cmake --install` installs, so far as they depend on the prefix, which is known only then; and its
# checks before it writes anything.
add_custom_target(brdma_programs DEPENDS brdma brdmad brdma-switch brdma-controller brdma-perf brdma-sim bitmaprdma)
if(PROMETHEUS_FOUND)
  add_dependencies(brdma_programs brdma-metrics)
  set(optional_programs bin/brdma-metrics)
endif()

# Half an installation is worse than none.
install(CODE "
  foreach(file bin/brdma bin/brdmad bin/brdma-switch bin/brdma-controller bin/brdma-perf bin/brdma-sim ${optional_programs} lib/libbitmaprdma.so)
    if(NOT EXISTS \"${CMAKE_BINARY_DIR}/\${file}\")
      message(FATAL_ERROR \"\${file} is not built, and nothing is installed. First: cmake --build '${CMAKE_BINARY_DIR}' --target brdma_programs\")
    endif()
  endforeach()")

# What brdma has made when it was built (utils/brdma/CMakeLists.txt), where man and the shells look.
include(GNUInstallDirs)
set(made ${CMAKE_BINARY_DIR}/utils/brdma)
install(DIRECTORY ${made}/manual/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 FILES_MATCHING PATTERN "*.8")
install(FILES ${made}/brdma.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME brdma)
install(FILES ${made}/brdma.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
set(zsh_folder site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(zsh_folder vendor-completions)  # Debian's, for packages
endif()
install(FILES ${made}/_brdma DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${zsh_folder})

# brdma_install_text(TEXT FOLDER NAME): TEXT, where @PREFIX@ is the prefix, goes to FOLDER/NAME. FOLDER is below the prefix.
function(brdma_install_text text folder name)
  install(CODE "
  get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
  string(REPLACE @PREFIX@ \"\${prefix}\" text [==[${text}]==])
  set(to \"\${CMAKE_INSTALL_PREFIX}/${folder}\")
  if(\"\${to}\" MATCHES \"^/usr/+(etc/.*)$\")
    set(to \"/\${CMAKE_MATCH_1}\")  # files of a prefix of /usr are in /etc
  endif()
  message(STATUS \"Installing: \$ENV{DESTDIR}\${to}/${name}\")
  file(WRITE \"\$ENV{DESTDIR}\${to}/${name}\" \"\${text}\")
  file(CHMOD \"\$ENV{DESTDIR}\${to}/${name}\" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${to}/${name}\")")
endfunction()
