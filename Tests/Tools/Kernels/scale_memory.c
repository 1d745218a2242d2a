// Scales random frames with each instruction set of this machine, in buffers of exactly their size, so that a sanitizer
// sees each byte outside. Exits with 1 at the first difference from plain C.
#include "scale.h"

#include <stdio.h>

static uint32_t state = 2026;
static uint32_t below(uint32_t limit) {
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % limit;
}

int main(void) {
    enum { rounds = 4000 };
    for (int round = 0; round < rounds; round++) {
        size_t columns = 1 + below(100), rows = 1 + below(60);
        size_t to_columns = 2 + 2 * below(50), to_rows = 2 + 2 * below(30);
        size_t stride = 4 * columns + below(9), size = stride * (rows - 1) + 4 * columns;
        size_t y_stride = to_columns + below(7), uv_stride = to_columns / 2 + below(5);
        size_t y_size = y_stride * (to_rows - 1) + to_columns, uv_size = uv_stride * (to_rows / 2 - 1) + to_columns / 2;
        uint8_t *source = malloc(size), *planes[2][3];
        int extremes = (int)below(3);
        for (size_t i = 0; i < size; i++)
            source[i] = (uint8_t)(extremes == 2 ? 255 : extremes ? 255 * below(2) : below(256));
        int byte = (int)below(4);
        decart_scale_matrix matrix = decart_scale_make_matrix(
            byte, (byte + 1) % 4, (byte + 2) % 4, below(2) ? 0.299 : 0.2126, below(2) ? 0.114 : 0.0722, (int)below(2));
        decart_scale_plan *plan = decart_scale_make_plan(columns, rows, to_columns, to_rows);
        if (!source || !plan) return 1;
        decart_scale_level levels[] = {DECART_SCALE_PLAIN, decart_scale_best_level()};
        for (int i = 0; i < 2; i++) {
            for (int plane = 0; plane < 3; plane++) {
                size_t bytes = plane ? uv_size : y_size;
                if (!(planes[i][plane] = malloc(bytes))) return 1;
                memset(planes[i][plane], 0, bytes);
            }
            decart_scale_target target = {
                planes[i][0], planes[i][1], planes[i][2], (ptrdiff_t)y_stride, (ptrdiff_t)uv_stride,
                (ptrdiff_t)uv_stride};
            decart_scale_frame(plan, source, (ptrdiff_t)stride, target, &matrix, levels[i]);
        }
        for (int plane = 0; plane < 3; plane++) {
            if (memcmp(planes[0][plane], planes[1][plane], plane ? uv_size : y_size)) {
                printf("%zux%zu to %zux%zu: plane %d differs\n", columns, rows, to_columns, to_rows, plane);
                return 1;
            }
            free(planes[0][plane]);
            free(planes[1][plane]);
        }
        free(plan);
        free(source);
    }
    printf("%d frames are equal\n", rounds);
    return 0;
}
