// Scales packed RGB of four bytes a pixel and converts it to I420 in one pass over the frame, because a scaled RGB frame
// between the two steps would leave the cache and come back. Header only; call it per frame.
//
// Two output rows at a time: each one is a blend of two source rows (kept as signed bytes, value - 128), then each output
// pixel is a blend of two pixels of that row, in 16 bits, from which luma and chroma are computed without another
// rounding. All levels give the same bytes.
#ifndef GST_DECART_SCALE_H
#define GST_DECART_SCALE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

// Instruction sets; a parameter, so that a test can run all that the machine supports.
typedef enum { DECART_SCALE_PLAIN, DECART_SCALE_VECTOR_32 } decart_scale_level;

static inline decart_scale_level decart_scale_best_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2")) return DECART_SCALE_VECTOR_32;
#endif
    return DECART_SCALE_PLAIN;
}

// MARK: Colour

// Coefficients by the position of a byte in its pixel: luma in 1/16384, chroma in 1/8192. An unused byte has 0.
typedef struct {
    int16_t luma[4], u[4], v[4];
    int32_t luma_bias, chroma_bias;
} decart_scale_matrix;

enum { DECART_SCALE_LUMA_SHIFT = 14 + 7, DECART_SCALE_CHROMA_SHIFT = 13 + 7 + 2 };

static inline int16_t decart_scale_rounded(double value) { return (int16_t)(value < 0 ? value - 0.5 : value + 0.5); }

// `red`, `green` and `blue` are three different positions below 4. `kr` and `kb` are those of the standard: 0.299 and
// 0.114 for BT.601, 0.2126 and 0.0722 for BT.709. The coefficients of grey sum up exactly.
static inline decart_scale_matrix decart_scale_make_matrix(
    int red, int green, int blue, double kr, double kb, int full_range
) {
    decart_scale_matrix matrix;
    memset(&matrix, 0, sizeof matrix);
    double range = full_range ? 1 : 219.0 / 255, chroma = full_range ? 1 : 224.0 / 255;
    int16_t all = decart_scale_rounded(range * 16384);
    matrix.luma[red] = decart_scale_rounded(kr * range * 16384);
    matrix.luma[blue] = decart_scale_rounded(kb * range * 16384);
    matrix.luma[green] = (int16_t)(all - matrix.luma[red] - matrix.luma[blue]);
    matrix.u[blue] = decart_scale_rounded(0.5 * chroma * 8192);
    matrix.u[red] = decart_scale_rounded(-0.5 * kr / (1 - kb) * chroma * 8192);
    matrix.u[green] = (int16_t)(-matrix.u[blue] - matrix.u[red]);
    matrix.v[red] = decart_scale_rounded(0.5 * chroma * 8192);
    matrix.v[blue] = decart_scale_rounded(-0.5 * kb / (1 - kr) * chroma * 8192);
    matrix.v[green] = (int16_t)(-matrix.v[red] - matrix.v[blue]);
    // The blends are of (value - 128) * 128; the chroma coefficients sum up to 0, so only luma needs that back.
    matrix.luma_bias = ((full_range ? 0 : 16) << DECART_SCALE_LUMA_SHIFT) + all * 128 * 128
        + (1 << (DECART_SCALE_LUMA_SHIFT - 1));
    matrix.chroma_bias = (128 << DECART_SCALE_CHROMA_SHIFT) + (1 << (DECART_SCALE_CHROMA_SHIFT - 1));
    return matrix;
}

// MARK: Plan

// Positions of the output's rows and columns in the source, and the rows being blended, in one allocation. One thread at a
// time may use it.
typedef struct {
    size_t columns, rows, to_columns, to_rows;
    uint32_t *at_row, *at_column;
    // Weight of the next row, 0 to 127; that of the row itself is the rest to 128.
    uint8_t *row_weights;
    // Both weights of a column, once for each byte of its pixel.
    uint8_t *column_weights;
    // Two blended rows, each with a repeated last pixel.
    int8_t *blended[2];
} decart_scale_plan;

// Positions of output samples in 1/128 of a source sample, those of videoscale, so that the picture does not move when a
// frame takes the other way. The centres of rows lie on each other, and edges are repeated.
static inline uint32_t decart_scale_row_position(size_t index, size_t from, size_t to) {
    uint64_t at = ((2 * (uint64_t)index + 1) * from * 128 + to) / (2 * (uint64_t)to);
    uint64_t last = (uint64_t)(from - 1) * 128;
    at = at < 64 ? 0 : at - 64;
    return (uint32_t)(at < last ? at : last);
}

// The first column lies on the first one and the last on the last.
static inline uint32_t decart_scale_column_position(size_t index, size_t from, size_t to) {
    return to > 1 ? (uint32_t)((uint64_t)index * (from - 1) * 128 / (to - 1)) : 0;
}

// Returns NULL without memory, if a side is 0 or above 32768, or if an output side is odd. Free it with free().
static inline decart_scale_plan *decart_scale_make_plan(
    size_t columns, size_t rows, size_t to_columns, size_t to_rows
) {
    const size_t limit = 32768;
    if (!columns || !rows || !to_columns || !to_rows || columns > limit || rows > limit || to_columns > limit
        || to_rows > limit || to_columns % 2 || to_rows % 2)
        return NULL;
    size_t row_bytes = (columns + 1) * 4;
    size_t size = sizeof(decart_scale_plan) + 4 * (to_rows + to_columns) + to_rows + 8 * to_columns + 2 * row_bytes;
    decart_scale_plan *plan = (decart_scale_plan *)malloc(size);
    if (!plan) return NULL;
    plan->columns = columns;
    plan->rows = rows;
    plan->to_columns = to_columns;
    plan->to_rows = to_rows;
    plan->at_row = (uint32_t *)(plan + 1);
    plan->at_column = plan->at_row + to_rows;
    plan->column_weights = (uint8_t *)(plan->at_column + to_columns);
    plan->row_weights = plan->column_weights + 8 * to_columns;
    plan->blended[0] = (int8_t *)(plan->row_weights + to_rows);
    plan->blended[1] = plan->blended[0] + row_bytes;
    for (size_t i = 0; i < to_rows; i++) {
        uint32_t at = decart_scale_row_position(i, rows, to_rows);
        plan->at_row[i] = at / 128;
        plan->row_weights[i] = at % 128;
    }
    for (size_t i = 0; i < to_columns; i++) {
        uint32_t at = decart_scale_column_position(i, columns, to_columns);
        plan->at_column[i] = at / 128;
        for (int byte = 0; byte < 4; byte++) {
            plan->column_weights[8 * i + 2 * byte] = (uint8_t)(128 - at % 128);
            plan->column_weights[8 * i + 2 * byte + 1] = at % 128;
        }
    }
    return plan;
}

// MARK: Plain C

static inline uint8_t decart_scale_clamped(int32_t value) { return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value); }

static inline void decart_scale_blend_plain(
    int8_t *to, const uint8_t *from, const uint8_t *next, size_t begin, size_t end, int weight
) {
    for (size_t i = begin; i < end; i++)
        to[i] = (int8_t)((((int)from[i] - 128) * (128 - weight) + ((int)next[i] - 128) * weight + 64) >> 7);
}

static inline void decart_scale_columns_plain(
    const decart_scale_plan *plan, uint8_t *y0, uint8_t *y1, uint8_t *u, uint8_t *v, const decart_scale_matrix *matrix,
    size_t begin
) {
    for (size_t x = begin; x + 2 <= plan->to_columns; x += 2) {
        int32_t sum_u = matrix->chroma_bias, sum_v = matrix->chroma_bias;
        for (size_t i = 0; i < 4; i++) {
            size_t column = x + i % 2;
            const int8_t *pixel = plan->blended[i / 2] + 4 * (size_t)plan->at_column[column];
            int weight = plan->column_weights[8 * column + 1];
            int32_t luma = matrix->luma_bias;
            for (int byte = 0; byte < 4; byte++) {
                int32_t value = pixel[byte] * (128 - weight) + pixel[byte + 4] * weight;
                luma += value * matrix->luma[byte];
                sum_u += value * matrix->u[byte];
                sum_v += value * matrix->v[byte];
            }
            (i / 2 ? y1 : y0)[column] = decart_scale_clamped(luma >> DECART_SCALE_LUMA_SHIFT);
        }
        u[x / 2] = decart_scale_clamped(sum_u >> DECART_SCALE_CHROMA_SHIFT);
        v[x / 2] = decart_scale_clamped(sum_v >> DECART_SCALE_CHROMA_SHIFT);
    }
}

// MARK: Vectors

#if defined(__x86_64__)
#define DECART_SCALE_CODE_32 __attribute__((target("avx2"))) static inline

DECART_SCALE_CODE_32 void decart_scale_blend_block(
    int8_t *to, const uint8_t *from, const uint8_t *next, __m256i weights
) {
    const __m256i sign = _mm256_set1_epi8((char)0x80), half = _mm256_set1_epi16(64);
    __m256i a = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)from), sign);
    __m256i b = _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)next), sign);
    __m256i low = _mm256_maddubs_epi16(weights, _mm256_unpacklo_epi8(a, b));
    __m256i high = _mm256_maddubs_epi16(weights, _mm256_unpackhi_epi8(a, b));
    low = _mm256_srai_epi16(_mm256_add_epi16(low, half), 7);
    high = _mm256_srai_epi16(_mm256_add_epi16(high, half), 7);
    _mm256_storeu_si256((__m256i *)to, _mm256_packs_epi16(low, high));
}

DECART_SCALE_CODE_32 void decart_scale_blend_32(
    int8_t *to, const uint8_t *from, const uint8_t *next, size_t bytes, int weight
) {
    if (bytes < 32) return decart_scale_blend_plain(to, from, next, 0, bytes, weight);
    __m256i weights = _mm256_set1_epi16((short)((128 - weight) | weight << 8));
    size_t i = 0;
    for (; i + 32 <= bytes; i += 32) decart_scale_blend_block(to + i, from + i, next + i, weights);
    // The last block overlaps its neighbour.
    decart_scale_blend_block(to + bytes - 32, from + bytes - 32, next + bytes - 32, weights);
}

// Four output pixels: 16-bit blends of (value - 128) * 128.
DECART_SCALE_CODE_32 __m256i decart_scale_four(const int8_t *row, const uint32_t *at, const uint8_t *weights) {
    const __m256i order = _mm256_setr_epi8(
        0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15, 0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15);
    // Each load is a pixel and its neighbour.
    __m128i a = _mm_loadl_epi64((const __m128i *)(row + 4 * (size_t)at[0]));
    __m128i b = _mm_loadl_epi64((const __m128i *)(row + 4 * (size_t)at[1]));
    __m128i c = _mm_loadl_epi64((const __m128i *)(row + 4 * (size_t)at[2]));
    __m128i d = _mm_loadl_epi64((const __m128i *)(row + 4 * (size_t)at[3]));
    __m256i pixels = _mm256_inserti128_si256(
        _mm256_castsi128_si256(_mm_unpacklo_epi64(a, b)), _mm_unpacklo_epi64(c, d), 1);
    return _mm256_maddubs_epi16(
        _mm256_loadu_si256((const __m256i *)weights), _mm256_shuffle_epi8(pixels, order));
}

DECART_SCALE_CODE_32 __m256i decart_scale_coefficients(const int16_t *four) {
    int64_t value;
    memcpy(&value, four, sizeof value);
    return _mm256_set1_epi64x(value);
}

// Eight columns of two rows at a time; returns the number of columns done.
DECART_SCALE_CODE_32 size_t decart_scale_columns_32(
    const decart_scale_plan *plan, uint8_t *y0, uint8_t *y1, uint8_t *u, uint8_t *v, const decart_scale_matrix *matrix
) {
    const __m256i luma = decart_scale_coefficients(matrix->luma);
    const __m256i to_u = decart_scale_coefficients(matrix->u), to_v = decart_scale_coefficients(matrix->v);
    const __m256i luma_bias = _mm256_set1_epi32(matrix->luma_bias);
    const __m256i chroma_bias = _mm256_set1_epi32(matrix->chroma_bias);
    const int8_t *row0 = plan->blended[0], *row1 = plan->blended[1];
    size_t x = 0;
    for (; x + 8 <= plan->to_columns; x += 8) {
        const uint32_t *at = plan->at_column + x;
        const uint8_t *weights = plan->column_weights + 8 * x;
        __m256i a0 = decart_scale_four(row0, at, weights), a1 = decart_scale_four(row0, at + 4, weights + 32);
        __m256i b0 = decart_scale_four(row1, at, weights), b1 = decart_scale_four(row1, at + 4, weights + 32);
        // Luma of both rows. hadd gives the columns 0 1 4 5 | 2 3 6 7.
        __m256i y_a = _mm256_hadd_epi32(_mm256_madd_epi16(a0, luma), _mm256_madd_epi16(a1, luma));
        __m256i y_b = _mm256_hadd_epi32(_mm256_madd_epi16(b0, luma), _mm256_madd_epi16(b1, luma));
        y_a = _mm256_srai_epi32(_mm256_add_epi32(y_a, luma_bias), DECART_SCALE_LUMA_SHIFT);
        y_b = _mm256_srai_epi32(_mm256_add_epi32(y_b, luma_bias), DECART_SCALE_LUMA_SHIFT);
        __m256i both = _mm256_packs_epi32(y_a, y_b);
        both = _mm256_packus_epi16(both, both);
        __m128i rows = _mm_unpacklo_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
        _mm_storel_epi64((__m128i *)(y0 + x), rows);
        _mm_storel_epi64((__m128i *)(y1 + x), _mm_unpackhi_epi64(rows, rows));
        // Chroma of the sums of two by two pixels: even columns 0 4 | 2 6, odd ones 1 5 | 3 7.
        __m256i s0 = _mm256_add_epi16(a0, b0), s1 = _mm256_add_epi16(a1, b1);
        __m256i even = _mm256_unpacklo_epi64(s0, s1), odd = _mm256_unpackhi_epi64(s0, s1);
        __m256i sum_u = _mm256_add_epi32(_mm256_madd_epi16(even, to_u), _mm256_madd_epi16(odd, to_u));
        __m256i sum_v = _mm256_add_epi32(_mm256_madd_epi16(even, to_v), _mm256_madd_epi16(odd, to_v));
        __m256i uv = _mm256_add_epi32(_mm256_hadd_epi32(sum_u, sum_v), chroma_bias);
        uv = _mm256_srai_epi32(uv, DECART_SCALE_CHROMA_SHIFT);
        uv = _mm256_packs_epi32(uv, uv);
        uv = _mm256_packus_epi16(uv, uv);
        __m128i chroma = _mm_unpacklo_epi8(_mm256_castsi256_si128(uv), _mm256_extracti128_si256(uv, 1));
        int32_t four = _mm_cvtsi128_si32(chroma);
        memcpy(u + x / 2, &four, 4);
        four = _mm_extract_epi32(chroma, 1);
        memcpy(v + x / 2, &four, 4);
    }
    return x;
}
#endif

// MARK: Frames

typedef struct {
    uint8_t *y, *u, *v;
    ptrdiff_t y_stride, u_stride, v_stride;
} decart_scale_target;

// Writes plan->to_columns x plan->to_rows pixels of I420 and no other byte; reads plan->columns x plan->rows pixels at
// `from`. The target overlaps neither the source nor the plan.
static inline void decart_scale_frame(
    const decart_scale_plan *plan, const uint8_t *from, ptrdiff_t stride, decart_scale_target to,
    const decart_scale_matrix *matrix, decart_scale_level level
) {
    size_t bytes = 4 * plan->columns;
    for (size_t y = 0; y + 2 <= plan->to_rows; y += 2) {
        for (size_t i = 0; i < 2; i++) {
            size_t row = plan->at_row[y + i], next = row + 1 < plan->rows ? row + 1 : row;
            const uint8_t *upper = from + stride * (ptrdiff_t)row, *lower = from + stride * (ptrdiff_t)next;
            int8_t *blended = plan->blended[i];
            int weight = plan->row_weights[y + i];
#if defined(__x86_64__)
            if (level == DECART_SCALE_VECTOR_32)
                decart_scale_blend_32(blended, upper, lower, bytes, weight);
            else
#endif
                decart_scale_blend_plain(blended, upper, lower, 0, bytes, weight);
            memcpy(blended + bytes, blended + bytes - 4, 4);
        }
        uint8_t *y0 = to.y + to.y_stride * (ptrdiff_t)y, *y1 = y0 + to.y_stride;
        uint8_t *u = to.u + to.u_stride * (ptrdiff_t)(y / 2), *v = to.v + to.v_stride * (ptrdiff_t)(y / 2);
        size_t done = 0;
#if defined(__x86_64__)
        if (level == DECART_SCALE_VECTOR_32) done = decart_scale_columns_32(plan, y0, y1, u, v, matrix);
#endif
        decart_scale_columns_plain(plan, y0, y1, u, v, matrix, done);
    }
}
#endif
