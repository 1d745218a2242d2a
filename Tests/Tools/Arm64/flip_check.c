// Compares the vector kernels of this machine with the plain ones on random planes of every unit, in place and as a
// copy, with any alignment. They must not write outside of the columns. Exits with 1 at the first difference.
#include "flip.h"

#include <stdio.h>
#include <stdlib.h>

enum { largest = 320, room = 4 * largest + 128 };

static uint32_t state = 2026;
static uint32_t below(uint32_t limit) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

int main(void) {
    static const size_t sizes[] = {1, 2, 3, 4, 2, 2};
    static uint8_t from[8 * room], plain[8 * room], vector[8 * room];
    decart_flip_level level = decart_flip_best_level();
    if (level == DECART_FLIP_PLAIN) return puts("this machine has no vector kernels"), 1;
    for (int round = 0; round < 200000; round++) {
        decart_flip_unit unit = (decart_flip_unit)below(6);
        size_t columns = 1 + below(largest), rows = 1 + below(4), bytes = columns * sizes[unit];
        ptrdiff_t stride = (ptrdiff_t)(bytes + 2 + below(64));
        size_t start = below(33);
        for (size_t i = 0; i < sizeof from; i++) {
            from[i] = (uint8_t)below(256);
            if (i > start + (size_t)stride * rows + 64) break;
        }
        int in_place = (int)below(2);
        memcpy(plain, in_place ? from : vector, sizeof plain);
        memcpy(vector, plain, sizeof vector);
        decart_flip_plane_horizontally(
            plain + start, stride, (in_place ? plain : from) + start, stride, columns, rows, unit, DECART_FLIP_PLAIN);
        decart_flip_plane_horizontally(
            vector + start, stride, (in_place ? vector : from) + start, stride, columns, rows, unit, level);
        if (memcmp(plain, vector, sizeof plain)) {
            printf("round %d: unit %d, %zu columns, %zu rows, %s\n", round, unit, columns, rows, in_place ? "in place" : "copy");
            return 1;
        }
    }
    puts("200000 planes are equal");
    return 0;
}
