// What leaves the shared libraries.
//
// What      `namespace SAETA_EXPORT saeta {` opens an installed header, and no other: what the header declares is
//           exported. `SAETA_LOCAL` marks a class that an installed header only declares, as its private state.
//           Everything else is hidden by the compiler's options (docs/abi.md).
#pragma once

#define SAETA_EXPORT [[gnu::visibility("default")]]
#define SAETA_LOCAL [[gnu::visibility("hidden")]]
