# What the modules behind saeta.cuda need besides libarrow: its Python library, and Cython and NumPy to build classes that derive
# from pyarrow's own. SAETA_ARROW_PYTHON_LIBRARY, SAETA_NUMPY_INCLUDE.

include_guard(GLOBAL)

saeta_feature_wanted(BRIDGE wanted)
if(wanted)
  saeta_python_value(cython "import Cython; print(Cython.__version__)")
  saeta_python_value(SAETA_NUMPY_INCLUDE "import numpy; print(numpy.get_include())")
  string(REPLACE "libarrow.so" "libarrow_python.so" SAETA_ARROW_PYTHON_LIBRARY "${SAETA_ARROW_LIBRARY}")
  if(NOT SAETA_WITH_IPC)
    saeta_feature_missing(BRIDGE "there is no libarrow to build with")
  elseif(NOT EXISTS "${SAETA_ARROW_PYTHON_LIBRARY}")
    saeta_feature_missing(BRIDGE "pyarrow ${SAETA_PYARROW_VERSION} has no ${SAETA_ARROW_PYTHON_LIBRARY}")
  elseif(NOT cython OR NOT SAETA_NUMPY_INCLUDE)
    saeta_feature_missing(BRIDGE "${SAETA_PYTHON_EXECUTABLE} lacks Cython or NumPy (pip install cython numpy)")
  else()
    saeta_feature_found(BRIDGE "Cython ${cython}")
  endif()
endif()
