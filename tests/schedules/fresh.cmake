# Runs random programs with seeds derived from the commit's hash, so that every commit tries new ones and a failure can be
# reproduced. The environment variable SAETA_FIRST_SEED sets the first seed; without git it is a fixed number.
#
#   cmake -D PROGRAM=<saeta_schedules> -D COUNT=<programs> -D SOURCE=<tree> [-D OPTIONS="<more options>"] -P fresh.cmake

set(first "$ENV{SAETA_FIRST_SEED}")
set(origin "SAETA_FIRST_SEED")
if(first STREQUAL "")
  execute_process(COMMAND git -C "${SOURCE}" rev-parse HEAD OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                  ERROR_QUIET RESULT_VARIABLE status)
  if(status EQUAL 0)
    set(origin "commit ${commit}")
  else()
    set(origin "no git")
    set(commit "saeta")
  endif()
  # Hashed again, so that similar commit hashes give different seeds. 12 hexadecimal digits are far above the fixed seeds.
  string(SHA256 hash "${commit}")
  string(SUBSTRING "${hash}" 0 12 digits)
  math(EXPR first "0x${digits} + 1000000")
endif()
message("seeds from ${first} (${origin}); replay one with: ${PROGRAM} --first-seed SEED --count 1 ${OPTIONS}")
separate_arguments(options UNIX_COMMAND "${OPTIONS}")
execute_process(COMMAND "${PROGRAM}" --first-seed ${first} --count ${COUNT} ${options} RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "random programs: ${status}")
endif()
