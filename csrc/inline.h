/* inline.h - functions whose arguments are constants where they are called, and that must see them. */
#ifndef QN_INLINE_H
#define QN_INLINE_H

#define INLINE static inline __attribute__((always_inline))

#endif
