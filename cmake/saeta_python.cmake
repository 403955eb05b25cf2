# The Python that everything uses: the one given, that of the set-up, or the system's.
#
# After this, SAETA_PYTHON_EXECUTABLE is an interpreter, or empty where there is none: the core needs none once .deps/ is
# filled.

include_guard(GLOBAL)

set(SAETA_PYTHON_EXECUTABLE "" CACHE FILEPATH "Python to build for; looked for when empty")
if(NOT Python_EXECUTABLE)
  set(Python_EXECUTABLE "${SAETA_PYTHON_EXECUTABLE}")
endif()
if(NOT Python_EXECUTABLE)
  # Looked up anew every time: the set-up may have made its environment since.
  find_program(saeta_python_program NAMES python PATHS "${SAETA_DEPS_DIR}/venv/bin" NO_DEFAULT_PATH NO_CACHE)
  find_program(saeta_python_program NAMES python3 python NO_CACHE)
  if(saeta_python_program)
    # The program may be a wrapper; what it runs is the interpreter.
    execute_process(COMMAND "${saeta_python_program}" -c "import sys; print(sys.executable)"
                    OUTPUT_VARIABLE Python_EXECUTABLE OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
endif()
set(SAETA_PYTHON_EXECUTABLE "${Python_EXECUTABLE}")

# Standard output of a Python expression, empty when it fails.
function(saeta_python_value variable expression)
  set(value "")
  if(SAETA_PYTHON_EXECUTABLE)
    execute_process(COMMAND "${SAETA_PYTHON_EXECUTABLE}" -c "${expression}"
                    OUTPUT_VARIABLE value ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  set(${variable} "${value}" PARENT_SCOPE)
endfunction()
