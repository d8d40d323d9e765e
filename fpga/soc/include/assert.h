/* All that t3_registers.h needs of <assert.h>, for compilers that come without a C library. */
#ifndef static_assert
#define static_assert _Static_assert
#endif
