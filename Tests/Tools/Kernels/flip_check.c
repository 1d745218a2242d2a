// Flips random planes with each instruction set of this machine, in place and as a copy. Exits with 1 at the first difference
// from plain C. The buffers have exactly their size, so that a sanitizer sees each byte outside; without one, GUARD bytes
// behind the plane show what is written there.
#include "flip.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef GUARD
#define GUARD 0
#endif

static uint32_t state = 2026;
static uint32_t below(uint32_t limit) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

int main(void) {
    enum { rounds = GUARD ? 100000 : 30000 };
    static const size_t sizes[] = {1, 2, 3, 4, 2, 2};
    if (decart_flip_best_level() == DECART_FLIP_PLAIN) return puts("this machine has no vector kernels"), 1;
    for (int round = 0; round < rounds; round++) {
        decart_flip_unit unit = (decart_flip_unit)below(6);
        size_t columns = 1 + below(400), rows = 1 + below(4), bytes = columns * sizes[unit];
        if (unit >= DECART_FLIP_YUYV) bytes = (columns + 1) / 2 * 4;
        size_t stride = bytes + below(70), size = stride * (rows - 1) + bytes, start = below(65), length = start + size + GUARD;
        uint8_t *source = malloc(size), *expected = malloc(length), *memory = malloc(length);
        if (!source || !expected || !memory) return 1;
        for (size_t i = 0; i < size; i++) source[i] = (uint8_t)below(256);
        memset(expected, 0xA5, length);
        memcpy(expected + start, source, size);
        decart_flip_plane_horizontally(
            expected + start, (ptrdiff_t)stride, source, (ptrdiff_t)stride, columns, rows, unit, DECART_FLIP_PLAIN);
        for (int level = DECART_FLIP_VECTOR_16; level <= (int)decart_flip_best_level(); level++) {
            for (int in_place = 0; in_place < 2; in_place++) {
                uint8_t *to = memory + start;
                memset(memory, 0xA5, length);
                memcpy(to, source, size);
                decart_flip_plane_horizontally(
                    to, (ptrdiff_t)stride, in_place ? to : source, (ptrdiff_t)stride, columns, rows, unit,
                    (decart_flip_level)level);
                if (memcmp(memory, expected, length)) {
                    printf("unit %d, level %d, %zu columns, %zu rows\n", unit, level, columns, rows);
                    return 1;
                }
            }
        }
        free(source);
        free(expected);
        free(memory);
    }
    printf("%d planes are equal\n", rounds);
    return 0;
}
