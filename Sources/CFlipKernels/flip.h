// Flips one plane of a frame. This is the only place where C computes: Swift's baseline on x86-64 has no byte shuffle,
// and a Swift function cannot choose its instruction set. Header only; call it per plane, never per row or pixel.
//
// Formats differ only in the shuffle that reverses a block. A copy reads a row backwards and writes it forwards; in
// place, blocks from the two ends are exchanged. The last block overlaps its neighbour, so there is no tail loop.
#ifndef GST_DECART_FLIP_H
#define GST_DECART_FLIP_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

// The unit that keeps its byte order when a row is reversed. YUYV and UYVY are pairs of pixels that share their chroma:
// the two lumas are exchanged, and the chroma bytes stay in place (so the same kernels do YVYU and VYUY).
typedef enum {
    DECART_FLIP_8,
    DECART_FLIP_16,
    DECART_FLIP_24,
    DECART_FLIP_32,
    DECART_FLIP_YUYV,
    DECART_FLIP_UYVY,
} decart_flip_unit;

// Instruction sets; a parameter, so that a test can run all that the machine supports. The last one (AVX-512 VBMI) differs
// from the one before for units of three bytes only.
typedef enum {
    DECART_FLIP_PLAIN,
    DECART_FLIP_VECTOR_16,
    DECART_FLIP_VECTOR_32,
    DECART_FLIP_VECTOR_64
} decart_flip_level;

static inline decart_flip_level decart_flip_best_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vbmi")) return DECART_FLIP_VECTOR_64;
    if (__builtin_cpu_supports("avx2")) return DECART_FLIP_VECTOR_32;
    return __builtin_cpu_supports("ssse3") ? DECART_FLIP_VECTOR_16 : DECART_FLIP_PLAIN;
#elif defined(__aarch64__)
    return DECART_FLIP_VECTOR_16;
#else
    return DECART_FLIP_PLAIN;
#endif
}

// MARK: Plain C

// Exchanges units from the two ends of a row; `to` may be `from`.
#define DECART_FLIP_PLAIN_ROW(name, size, ...)                                                                         \
    static inline void name(uint8_t *to, const uint8_t *from, size_t bytes) {                                          \
        for (size_t left = 0, right = bytes; left < right; left += size) {                                             \
            right -= size;                                                                                             \
            uint8_t a[size], b[size];                                                                                  \
            memcpy(a, from + left, size);                                                                              \
            memcpy(b, from + right, size);                                                                             \
            const uint8_t new_left[size] = __VA_ARGS__(b), new_right[size] = __VA_ARGS__(a);                           \
            memcpy(to + left, new_left, size);                                                                         \
            memcpy(to + right, new_right, size);                                                                       \
        }                                                                                                              \
    }
#define DECART_FLIP_KEEP_1(x) {x[0]}
#define DECART_FLIP_KEEP_2(x) {x[0], x[1]}
#define DECART_FLIP_KEEP_3(x) {x[0], x[1], x[2]}
#define DECART_FLIP_KEEP_4(x) {x[0], x[1], x[2], x[3]}
#define DECART_FLIP_SWAP_YUYV(x) {x[2], x[1], x[0], x[3]}
#define DECART_FLIP_SWAP_UYVY(x) {x[0], x[3], x[2], x[1]}
DECART_FLIP_PLAIN_ROW(decart_flip_plain_8, 1, DECART_FLIP_KEEP_1)
DECART_FLIP_PLAIN_ROW(decart_flip_plain_16, 2, DECART_FLIP_KEEP_2)
DECART_FLIP_PLAIN_ROW(decart_flip_plain_24, 3, DECART_FLIP_KEEP_3)
DECART_FLIP_PLAIN_ROW(decart_flip_plain_32, 4, DECART_FLIP_KEEP_4)
DECART_FLIP_PLAIN_ROW(decart_flip_plain_yuyv, 4, DECART_FLIP_SWAP_YUYV)
DECART_FLIP_PLAIN_ROW(decart_flip_plain_uyvy, 4, DECART_FLIP_SWAP_UYVY)

static inline void decart_flip_row_plain(uint8_t *to, const uint8_t *from, size_t bytes, decart_flip_unit unit) {
    switch (unit) {
    case DECART_FLIP_8: decart_flip_plain_8(to, from, bytes); break;
    case DECART_FLIP_16: decart_flip_plain_16(to, from, bytes); break;
    case DECART_FLIP_24: decart_flip_plain_24(to, from, bytes); break;
    case DECART_FLIP_32: decart_flip_plain_32(to, from, bytes); break;
    case DECART_FLIP_YUYV: decart_flip_plain_yuyv(to, from, bytes); break;
    case DECART_FLIP_UYVY: decart_flip_plain_uyvy(to, from, bytes); break;
    }
}

// Reverses a row of pixel pairs with an odd number of pixels: luma and chroma each on their own, as in planar formats.
// The last luma byte belongs to no pixel and is copied as it is.
static inline void decart_flip_odd_pairs(uint8_t *to, const uint8_t *from, size_t columns, size_t luma) {
    size_t chroma = 1 - luma, last = columns - 1;
    for (size_t i = 0; i <= last / 2; i++) {
        uint8_t a = from[2 * i + luma], b = from[2 * (last - i) + luma];
        to[2 * i + luma] = b;
        to[2 * (last - i) + luma] = a;
    }
    to[2 * columns + luma] = from[2 * columns + luma];
    // Each macropixel covers two columns; the last one covers the odd column.
    last /= 2;
    for (size_t i = 0; i <= last / 2; i++) {
        size_t one = 4 * i + chroma, other = 4 * (last - i) + chroma;
        uint8_t a = from[one], b = from[one + 2], c = from[other], d = from[other + 2];
        to[one] = c;
        to[one + 2] = d;
        to[other] = a;
        to[other + 2] = b;
    }
}

// MARK: Vectors

#if defined(__x86_64__)
#define DECART_FLIP_CODE_16 __attribute__((target("ssse3"))) static inline
#define DECART_FLIP_CODE_48 DECART_FLIP_CODE_16
#define DECART_FLIP_CODE_32 __attribute__((target("avx2"))) static inline
typedef __m128i decart_flip_block_16;
typedef __m256i decart_flip_block_32;
#define DECART_FLIP_CODE_64 __attribute__((target("avx512f,avx512bw,avx512vbmi"))) static inline
#define DECART_FLIP_CODE_192 DECART_FLIP_CODE_64
typedef __m512i decart_flip_block_64;
#elif defined(__aarch64__)
#define DECART_FLIP_CODE_16 static inline
#define DECART_FLIP_CODE_48 DECART_FLIP_CODE_16
typedef uint8x16_t decart_flip_block_16;
#endif

#if defined(DECART_FLIP_CODE_16)
// The source index of each byte of a reversed block. Index 128 gives zero on both machines.
static const uint8_t decart_flip_orders[][16] = {
    [DECART_FLIP_8] = {15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
    [DECART_FLIP_16] = {14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1},
    // A 16-byte block does not hold whole pixels: see decart_flip_reverse_48.
    [DECART_FLIP_24] = {0},
    [DECART_FLIP_32] = {12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3},
    [DECART_FLIP_YUYV] = {14, 13, 12, 15, 10, 9, 8, 11, 6, 5, 4, 7, 2, 1, 0, 3},
    [DECART_FLIP_UYVY] = {12, 15, 14, 13, 8, 11, 10, 9, 4, 7, 6, 5, 0, 3, 2, 1},
};

DECART_FLIP_CODE_16 decart_flip_block_16 decart_flip_load_16(const uint8_t *from) {
#if defined(__x86_64__)
    return _mm_loadu_si128((const __m128i *)from);
#else
    return vld1q_u8(from);
#endif
}
DECART_FLIP_CODE_16 void decart_flip_store_16(uint8_t *to, decart_flip_block_16 block) {
#if defined(__x86_64__)
    _mm_storeu_si128((__m128i *)to, block);
#else
    vst1q_u8(to, block);
#endif
}
DECART_FLIP_CODE_16 decart_flip_block_16 decart_flip_reverse_16(
    decart_flip_block_16 block, decart_flip_block_16 order
) {
#if defined(__x86_64__)
    return _mm_shuffle_epi8(block, order);
#else
    return vqtbl1q_u8(block, order);
#endif
}

// Sixteen pixels of three bytes: each of the three new vectors takes its bytes from two or three old ones.
typedef struct {
    decart_flip_block_16 part[3];
} decart_flip_block_48;
typedef struct {
    decart_flip_block_16 part[7];
} decart_flip_order_48;

DECART_FLIP_CODE_16 decart_flip_order_48 decart_flip_make_order_48(void) {
    static const uint8_t orders[7][16] = {
        {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 14},
        {13, 14, 15, 10, 11, 12, 7, 8, 9, 4, 5, 6, 1, 2, 3, 128},
        {128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 15, 128},
        {15, 128, 11, 12, 13, 8, 9, 10, 5, 6, 7, 2, 3, 4, 128, 0},
        {128, 0, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
        {128, 12, 13, 14, 9, 10, 11, 6, 7, 8, 3, 4, 5, 0, 1, 2},
        {1, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128},
    };
    decart_flip_order_48 order;
    for (int i = 0; i < 7; i++) order.part[i] = decart_flip_load_16(orders[i]);
    return order;
}
DECART_FLIP_CODE_16 decart_flip_block_48 decart_flip_load_48(const uint8_t *from) {
    return (decart_flip_block_48){
        {decart_flip_load_16(from), decart_flip_load_16(from + 16), decart_flip_load_16(from + 32)}};
}
DECART_FLIP_CODE_16 void decart_flip_store_48(uint8_t *to, decart_flip_block_48 block) {
    for (int i = 0; i < 3; i++) decart_flip_store_16(to + 16 * i, block.part[i]);
}
DECART_FLIP_CODE_16 decart_flip_block_48 decart_flip_reverse_48(
    decart_flip_block_48 block, decart_flip_order_48 order
) {
    // A shuffle sets the bytes of other vectors to zero; `|` is defined for the vectors of both machines.
    decart_flip_block_16 a = block.part[0], b = block.part[1], c = block.part[2];
    return (decart_flip_block_48){{
        decart_flip_reverse_16(b, order.part[0]) | decart_flip_reverse_16(c, order.part[1]),
        decart_flip_reverse_16(a, order.part[2]) | decart_flip_reverse_16(b, order.part[3])
            | decart_flip_reverse_16(c, order.part[4]),
        decart_flip_reverse_16(a, order.part[5]) | decart_flip_reverse_16(b, order.part[6]),
    }};
}

// Returns the offset of a copy's second block: the first aligned address, if that lies between two pixels. GStreamer's
// memory is often aligned to 8 or 16 bytes only, and a store that crosses cache lines costs double.
static inline size_t decart_flip_second(const uint8_t *to, size_t size) {
    size_t start = size - (uintptr_t)to % size;
    return start % 4 ? size : start;
}
#define decart_flip_second_16(to) decart_flip_second(to, 16)
#define decart_flip_second_32(to) decart_flip_second(to, 32)
#define decart_flip_second_48(to) 48
#define decart_flip_second_192(to) 192

// Processes a row in blocks of one size. The copy returns 0, having done nothing, if the row is shorter than a block.
// The exchange returns how many bytes it has processed at each end; half of the row or more means all of it. Both
// handle two blocks per iteration and prefetch (`next` is the row below): 5 to 10 % where cache bandwidth is the limit.
#define DECART_FLIP_ROWS(size, order_type)                                                                             \
    DECART_FLIP_CODE_##size int decart_flip_copy_##size(                                                               \
        uint8_t *to, const uint8_t *from, const uint8_t *next, size_t bytes, order_type order                          \
    ) {                                                                                                                \
        if (bytes < size) return 0;                                                                                    \
        const uint8_t *end = from + bytes - size, *next_end = next + bytes - size;                                     \
        decart_flip_store_##size(to, decart_flip_reverse_##size(decart_flip_load_##size(end), order));                 \
        size_t i = decart_flip_second_##size(to);                                                                      \
        for (; i + 2 * size <= bytes; i += 2 * size) {                                                                 \
            __builtin_prefetch(next_end - i);                                                                          \
            decart_flip_block_##size a = decart_flip_load_##size(end - i), b = decart_flip_load_##size(end - i - size);\
            decart_flip_store_##size(to + i, decart_flip_reverse_##size(a, order));                                    \
            decart_flip_store_##size(to + i + size, decart_flip_reverse_##size(b, order));                             \
        }                                                                                                              \
        if (i + size <= bytes)                                                                                         \
            decart_flip_store_##size(to + i, decart_flip_reverse_##size(decart_flip_load_##size(end - i), order));     \
        decart_flip_store_##size(to + bytes - size, decart_flip_reverse_##size(decart_flip_load_##size(from), order)); \
        return 1;                                                                                                      \
    }                                                                                                                  \
    DECART_FLIP_CODE_##size void decart_flip_exchange_pair_##size(uint8_t *left, uint8_t *right, order_type order) {   \
        decart_flip_block_##size a = decart_flip_load_##size(left), b = decart_flip_load_##size(right);                \
        decart_flip_store_##size(left, decart_flip_reverse_##size(b, order));                                          \
        decart_flip_store_##size(right, decart_flip_reverse_##size(a, order));                                         \
    }                                                                                                                  \
    DECART_FLIP_CODE_##size size_t decart_flip_exchange_##size(uint8_t *row, size_t bytes, order_type order) {         \
        if (bytes < size) return 0;                                                                                    \
        uint8_t *left = row, *right = row + bytes - size;                                                              \
        /* Two blocks of 48 bytes do not fit into the registers. */                                                    \
        for (; size != 48 && right - left >= 3 * size; left += 2 * size, right -= 2 * size) {                          \
            if (right - left >= 2 * 256) {                                                                             \
                __builtin_prefetch(left + 256, 1);                                                                     \
                __builtin_prefetch(right - 256, 1);                                                                    \
            }                                                                                                          \
            decart_flip_block_##size a = decart_flip_load_##size(left), b = decart_flip_load_##size(left + size);      \
            decart_flip_block_##size c = decart_flip_load_##size(right - size), d = decart_flip_load_##size(right);    \
            decart_flip_store_##size(left, decart_flip_reverse_##size(d, order));                                      \
            decart_flip_store_##size(left + size, decart_flip_reverse_##size(c, order));                               \
            decart_flip_store_##size(right - size, decart_flip_reverse_##size(b, order));                              \
            decart_flip_store_##size(right, decart_flip_reverse_##size(a, order));                                     \
        }                                                                                                              \
        for (; right - left >= size; left += size, right -= size)                                                      \
            decart_flip_exchange_pair_##size(left, right, order);                                                      \
        /* Less than two blocks are left: two overlapping blocks write the same bytes where they overlap. */           \
        if (right < left) return (size_t)(left - row);                                                                 \
        decart_flip_exchange_pair_##size(left, right, order);                                                          \
        return bytes;                                                                                                  \
    }
DECART_FLIP_ROWS(16, decart_flip_block_16)
DECART_FLIP_ROWS(48, decart_flip_order_48)

DECART_FLIP_CODE_16 void decart_flip_plane_16(
    uint8_t *to, ptrdiff_t to_stride, const uint8_t *from, ptrdiff_t from_stride, size_t bytes, size_t rows,
    decart_flip_unit unit
) {
    decart_flip_block_16 order = decart_flip_load_16(decart_flip_orders[unit]);
    for (size_t row = 0; row < rows; row++, to += to_stride, from += from_stride) {
        const uint8_t *next = row + 1 < rows ? from + from_stride : from;
        if (to != from) {
            if (!decart_flip_copy_16(to, from, next, bytes, order)) decart_flip_row_plain(to, from, bytes, unit);
        } else {
            size_t done = decart_flip_exchange_16(to, bytes, order);
            if (2 * done < bytes) decart_flip_row_plain(to + done, to + done, bytes - 2 * done, unit);
        }
    }
}

DECART_FLIP_CODE_16 void decart_flip_plane_48(
    uint8_t *to, ptrdiff_t to_stride, const uint8_t *from, ptrdiff_t from_stride, size_t bytes, size_t rows
) {
    decart_flip_order_48 order = decart_flip_make_order_48();
    for (size_t row = 0; row < rows; row++, to += to_stride, from += from_stride) {
        const uint8_t *next = row + 1 < rows ? from + from_stride : from;
        if (to != from) {
            if (!decart_flip_copy_48(to, from, next, bytes, order)) decart_flip_plain_24(to, from, bytes);
        } else {
            size_t done = decart_flip_exchange_48(to, bytes, order);
            if (2 * done < bytes) decart_flip_plain_24(to + done, to + done, bytes - 2 * done);
        }
    }
}
#endif

#if defined(DECART_FLIP_CODE_32)
DECART_FLIP_CODE_32 decart_flip_block_32 decart_flip_load_32(const uint8_t *from) {
    return _mm256_loadu_si256((const __m256i *)from);
}
DECART_FLIP_CODE_32 void decart_flip_store_32(uint8_t *to, decart_flip_block_32 block) {
    _mm256_storeu_si256((__m256i *)to, block);
}
DECART_FLIP_CODE_32 decart_flip_block_32 decart_flip_reverse_32(
    decart_flip_block_32 block, decart_flip_block_32 order
) {
    // The shuffle stays within each 128-bit half, so the halves are exchanged afterwards.
    return _mm256_permute4x64_epi64(_mm256_shuffle_epi8(block, order), 0x4E);
}
DECART_FLIP_ROWS(32, decart_flip_block_32)

DECART_FLIP_CODE_32 void decart_flip_plane_32(
    uint8_t *to, ptrdiff_t to_stride, const uint8_t *from, ptrdiff_t from_stride, size_t bytes, size_t rows,
    decart_flip_unit unit
) {
    // The row is shorter than a block.
    if (bytes < 32) return decart_flip_plane_16(to, to_stride, from, from_stride, bytes, rows, unit);
    decart_flip_block_16 half = decart_flip_load_16(decart_flip_orders[unit]);
    decart_flip_block_32 order = _mm256_broadcastsi128_si256(half);
    for (size_t row = 0; row < rows; row++, to += to_stride, from += from_stride) {
        const uint8_t *next = row + 1 < rows ? from + from_stride : from;
        if (to != from) {
            decart_flip_copy_32(to, from, next, bytes, order);
        } else {
            // Exchanging one small block at each end aligns the others, if the row is a multiple of 32 bytes.
            size_t done = 0;
            if ((uintptr_t)to % 32 == 16 && bytes >= 64) {
                decart_flip_exchange_pair_16(to, to + bytes - 16, half);
                done = 16;
            }
            done += decart_flip_exchange_32(to + done, bytes - 2 * done, order);
            if (2 * done >= bytes) continue;
            done += decart_flip_exchange_16(to + done, bytes - 2 * done, half);
            if (2 * done < bytes) decart_flip_row_plain(to + done, to + done, bytes - 2 * done, unit);
        }
    }
}
#endif

#if defined(DECART_FLIP_CODE_64)
// A shuffle of one or two whole vectors reverses 192 bytes of three-byte pixels in four steps; it was no faster for the
// other units.
DECART_FLIP_CODE_64 decart_flip_block_64 decart_flip_load_64(const uint8_t *from) { return _mm512_loadu_si512(from); }
DECART_FLIP_CODE_64 void decart_flip_store_64(uint8_t *to, decart_flip_block_64 block) {
    _mm512_storeu_si512(to, block);
}
typedef struct {
    decart_flip_block_64 part[3];
} decart_flip_block_192;

DECART_FLIP_CODE_192 decart_flip_block_192 decart_flip_make_order_192(void) {
    // Source of each byte of the reversed block. A shuffle of two vectors counts on from the first to the second.
    uint8_t order[192];
    for (int i = 0; i < 192; i++) order[i] = (uint8_t)(192 - 3 * (i / 3 + 1) + i % 3);
    // The first vector comes from the last two, the others from the first two, but for one byte of the middle one.
    for (int i = 0; i < 64; i++) order[i] -= 64;
    return (decart_flip_block_192){
        {decart_flip_load_64(order), decart_flip_load_64(order + 64), decart_flip_load_64(order + 128)}};
}
DECART_FLIP_CODE_192 decart_flip_block_192 decart_flip_load_192(const uint8_t *from) {
    return (decart_flip_block_192){
        {decart_flip_load_64(from), decart_flip_load_64(from + 64), decart_flip_load_64(from + 128)}};
}
DECART_FLIP_CODE_192 void decart_flip_store_192(uint8_t *to, decart_flip_block_192 block) {
    for (int i = 0; i < 3; i++) decart_flip_store_64(to + 64 * i, block.part[i]);
}
DECART_FLIP_CODE_192 decart_flip_block_192 decart_flip_reverse_192(
    decart_flip_block_192 block, decart_flip_block_192 order
) {
    decart_flip_block_64 a = block.part[0], b = block.part[1], c = block.part[2];
    decart_flip_block_64 middle = _mm512_permutex2var_epi8(a, order.part[1], b);
    // Byte 1 of the middle vector is byte 128 of the source, the first one of `c`.
    return (decart_flip_block_192){{
        _mm512_permutex2var_epi8(b, order.part[0], c),
        _mm512_mask_permutexvar_epi8(middle, 2, _mm512_setzero_si512(), c),
        _mm512_permutex2var_epi8(a, order.part[2], b),
    }};
}
DECART_FLIP_ROWS(192, decart_flip_block_192)

DECART_FLIP_CODE_192 void decart_flip_plane_192(
    uint8_t *to, ptrdiff_t to_stride, const uint8_t *from, ptrdiff_t from_stride, size_t bytes, size_t rows
) {
    if (bytes < 192) return decart_flip_plane_48(to, to_stride, from, from_stride, bytes, rows);
    decart_flip_block_192 order = decart_flip_make_order_192();
    decart_flip_order_48 small = decart_flip_make_order_48();
    for (size_t row = 0; row < rows; row++, to += to_stride, from += from_stride) {
        const uint8_t *next = row + 1 < rows ? from + from_stride : from;
        if (to != from) {
            decart_flip_copy_192(to, from, next, bytes, order);
        } else {
            size_t done = decart_flip_exchange_192(to, bytes, order);
            if (2 * done >= bytes) continue;
            done += decart_flip_exchange_48(to + done, bytes - 2 * done, small);
            if (2 * done < bytes) decart_flip_plain_24(to + done, to + done, bytes - 2 * done);
        }
    }
}
#endif

// MARK: Planes

// Flips left to right. `columns` counts pixels for YUYV and UYVY and units for the others. `to` is `from` with the same
// stride, or does not overlap it. Bytes outside the columns are not written, except the last luma byte of an odd row of
// pairs.
static inline void decart_flip_plane_horizontally(
    uint8_t *to, ptrdiff_t to_stride, const uint8_t *from, ptrdiff_t from_stride, size_t columns, size_t rows,
    decart_flip_unit unit, decart_flip_level level
) {
    static const uint8_t sizes[] = {1, 2, 3, 4, 2, 2};
    int pairs = unit == DECART_FLIP_YUYV || unit == DECART_FLIP_UYVY;
    size_t bytes = columns * sizes[unit];
    if (pairs && columns % 2) {
        for (size_t row = 0; row < rows; row++, to += to_stride, from += from_stride)
            decart_flip_odd_pairs(to, from, columns, unit == DECART_FLIP_YUYV ? 0 : 1);
        return;
    }
#if defined(DECART_FLIP_CODE_64)
    if (level == DECART_FLIP_VECTOR_64 && unit == DECART_FLIP_24) {
        decart_flip_plane_192(to, to_stride, from, from_stride, bytes, rows);
        return;
    }
#endif
#if defined(DECART_FLIP_CODE_16)
    if (level != DECART_FLIP_PLAIN && unit == DECART_FLIP_24) {
        decart_flip_plane_48(to, to_stride, from, from_stride, bytes, rows);
        return;
    }
#endif
#if defined(DECART_FLIP_CODE_32)
    if (level == DECART_FLIP_VECTOR_32 || level == DECART_FLIP_VECTOR_64) {
        decart_flip_plane_32(to, to_stride, from, from_stride, bytes, rows, unit);
        return;
    }
#endif
#if defined(DECART_FLIP_CODE_16)
    if (level != DECART_FLIP_PLAIN) {
        decart_flip_plane_16(to, to_stride, from, from_stride, bytes, rows, unit);
        return;
    }
#endif
    for (size_t row = 0; row < rows; row++, to += to_stride, from += from_stride)
        decart_flip_row_plain(to, from, bytes, unit);
}

// Flips top to bottom: exchanges rows of `bytes` bytes.
static inline void decart_flip_plane_vertically(
    uint8_t *to, ptrdiff_t to_stride, const uint8_t *from, ptrdiff_t from_stride, size_t bytes, size_t rows
) {
    enum { block = 64 };
    for (size_t top = 0; top < (rows + 1) / 2; top++) {
        size_t bottom = rows - 1 - top;
        const uint8_t *from_top = from + from_stride * (ptrdiff_t)top;
        const uint8_t *from_bottom = from + from_stride * (ptrdiff_t)bottom;
        uint8_t *to_top = to + to_stride * (ptrdiff_t)top, *to_bottom = to + to_stride * (ptrdiff_t)bottom;
        size_t i = 0;
        for (; i + block <= bytes; i += block) {
            uint8_t a[block], b[block];
            memcpy(a, from_top + i, block);
            memcpy(b, from_bottom + i, block);
            memcpy(to_top + i, b, block);
            memcpy(to_bottom + i, a, block);
        }
        for (; i < bytes; i++) {
            uint8_t a = from_top[i], b = from_bottom[i];
            to_top[i] = b;
            to_bottom[i] = a;
        }
    }
}
#endif
