# Runs random programs whose seeds nobody has seen before: drawn from the commit, so that every commit tries others and a
# failure can be replayed. The environment variable SAETA_FIRST_SEED overrides the draw; without git it is a fixed number.
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
  # Hashed, for commits that begin alike; 12 hexadecimal digits are below 2^48 and far above the seeds that always run.
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
