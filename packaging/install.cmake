# What `cmake --install` puts where. The tree may be moved afterwards: the program finds its model,
# and pkg-config its library, from where they are themselves.
include(GNUInstallDirs)
install(TARGETS specbound specbound_shared)
install(FILES ${CMAKE_SOURCE_DIR}/src/capi/specbound.h TYPE INCLUDE)

# Not ${CMAKE_INSTALL_DATADIR}: src/library/model_path.cpp looks here.
file(GLOB models CONFIGURE_DEPENDS models/demo-chat-16l*
  models/smollm2-135m-instruct-q4_1.heads* models/README.md)
install(FILES ${models} DESTINATION share/specbound/models)
install(FILES README.md CHANGELOG.md LICENSE TYPE DOC)
install(DIRECTORY docs TYPE DOC)
# What draws tables and figures from what the benches write with --json.
install(FILES src/capi/example.c tests/bench/bench_tables.py tests/bench/spec_bench_sweep.py
  tests/bench/plots.py DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

if(IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  set(pc_prefix ${CMAKE_INSTALL_PREFIX})
else()
  file(RELATIVE_PATH pc_up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  string(REGEX REPLACE "/$" "" pc_prefix "\${pcfiledir}/${pc_up}")
endif()
configure_file(packaging/specbound.pc.in specbound.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/specbound.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# The man page and the completions (packaging/help_texts.cmake).
install(DIRECTORY ${help_texts}/share DESTINATION .)
