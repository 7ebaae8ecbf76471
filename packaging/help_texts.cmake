# The texts that the program has of itself: man page and completions, in ${help_texts}.
set(help_texts ${CMAKE_BINARY_DIR}/help_texts)
add_custom_command(OUTPUT ${help_texts}/help_texts.cpp
  COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_SOURCE_DIR}/packaging/help_texts.py
    $<TARGET_FILE:specbound_definitions> ${help_texts}
  DEPENDS specbound_definitions ${CMAKE_SOURCE_DIR}/packaging/help_texts.py
  COMMENT "Writing man page and completions" VERBATIM)
target_sources(specbound PRIVATE ${help_texts}/help_texts.cpp)
