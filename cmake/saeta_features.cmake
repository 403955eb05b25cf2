# Optional parts of the build: each is AUTO (built where what it needs is found), ON (an error where it is not) or OFF.
#
#   saeta_feature(CUDA "text")                declares the cache entry SAETA_CUDA
#   saeta_feature_wanted(CUDA variable)       TRUE unless switched off
#   saeta_feature_found(CUDA "what was found")
#   saeta_feature_missing(CUDA "why, and what to do")
#   saeta_summary()                           says at the end of the configuration what is built and what is not
#   saeta_say_host_only(target)               says it again when the target is built, if no CUDA toolkit was found
#
# After found or missing, SAETA_WITH_<name> is TRUE or FALSE.

include_guard(GLOBAL)

function(saeta_feature name text)
  set(default AUTO)
  if(NOT PROJECT_IS_TOP_LEVEL AND name MATCHES "^(BRIDGE|PYTHON|TESTS|BENCH|EXAMPLES)$")
    set(default OFF)
  endif()
  set(SAETA_${name} ${default} CACHE STRING "Build ${text}: AUTO, ON or OFF")
  set_property(CACHE SAETA_${name} PROPERTY STRINGS AUTO ON OFF)
  set_property(GLOBAL APPEND PROPERTY saeta_features ${name})
  if(NOT SAETA_${name} STREQUAL "AUTO" AND NOT SAETA_${name})
    set_property(GLOBAL PROPERTY saeta_feature_text_${name} "left out: switched off (SAETA_${name}=${SAETA_${name}})")
    set(SAETA_WITH_${name} FALSE CACHE INTERNAL "")
  endif()
endfunction()

function(saeta_feature_wanted name variable)
  if(SAETA_${name} STREQUAL "AUTO" OR SAETA_${name})
    set(${variable} TRUE PARENT_SCOPE)
  else()
    set(${variable} FALSE PARENT_SCOPE)
  endif()
endfunction()

function(saeta_feature_found name text)
  set(SAETA_WITH_${name} TRUE CACHE INTERNAL "")
  set_property(GLOBAL PROPERTY saeta_feature_text_${name} "${text}")
endfunction()

function(saeta_feature_missing name reason)
  if(NOT SAETA_${name} STREQUAL "AUTO" AND SAETA_${name})
    message(FATAL_ERROR "SAETA_${name}=${SAETA_${name}}, but ${reason}")
  endif()
  set(SAETA_WITH_${name} FALSE CACHE INTERNAL "")
  set_property(GLOBAL PROPERTY saeta_feature_text_${name} "left out: ${reason}")
endfunction()

# A line below the features, for a part of one that is left out.
function(saeta_note text)
  set_property(GLOBAL APPEND PROPERTY saeta_notes "${text}")
endfunction()

# A person reads the end of a build, not of its configuration. Whoever switched CUDA off knows it.
function(saeta_say_host_only target)
  if(NOT SAETA_WITH_CUDA AND SAETA_CUDA STREQUAL "AUTO")
    add_custom_command(
      TARGET ${target} POST_BUILD VERBATIM
      COMMAND "${CMAKE_COMMAND}" -E echo
              "note: built without CUDA, because no toolkit was found: every context is on the host. With a toolkit, nvcc on the PATH or CUDACXX set, configure again in an empty folder")
  endif()
endfunction()

function(saeta_summary)
  message(STATUS "Saeta ${PROJECT_VERSION}, ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}")
  get_property(features GLOBAL PROPERTY saeta_features)
  foreach(name IN LISTS features)
    get_property(text GLOBAL PROPERTY saeta_feature_text_${name})
    string(TOLOWER "${name}" label)
    string(SUBSTRING "${label}          " 0 10 label)
    message(STATUS "  ${label}${text}")
  endforeach()
  get_property(notes GLOBAL PROPERTY saeta_notes)
  foreach(note IN LISTS notes)
    message(STATUS "  note      ${note}")
  endforeach()
endfunction()
