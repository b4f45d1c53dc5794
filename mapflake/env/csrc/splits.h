/* The bucket of a board, as in ../splits.py: the hash of its canonical form, for which the form is written as Python does. */
#pragma once
#include "board.h"

enum { ALL_BUCKETS = (1 << 10) - 1 };

/* BLAKE2b (RFC 7693) without a key, the first 8 bytes. */
static uint64_t blake2b(const uint8_t *text, size_t length)
{
    static const uint64_t start[8] = {
        0x6A09E667F3BCC908u, 0xBB67AE8584CAA73Bu, 0x3C6EF372FE94F82Bu, 0xA54FF53A5F1D36F1u,
        0x510E527FADE682D1u, 0x9B05688C2B3E6C1Fu, 0x1F83D9ABFB41BD6Bu, 0x5BE0CD19137E2179u,
    };
    static const uint8_t order[10][16] = {
        {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
        {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4}, {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
        {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13}, {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
        {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11}, {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
        {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5}, {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
    };
    uint64_t state[8];
    memcpy(state, start, sizeof state);
    state[0] ^= 0x01010000 ^ 8;
    for (size_t at = 0;; at += 128) {
        int last = length - at <= 128;
        uint64_t words[16] = {0}, v[16];
        for (size_t k = at; k < (last ? length : at + 128); k++)
            words[(k - at) / 8] |= (uint64_t)text[k] << 8 * (k % 8);
        memcpy(v, state, sizeof state);
        memcpy(v + 8, start, sizeof start);
        v[12] ^= last ? length : at + 128;
        v[14] ^= last ? ~(uint64_t)0 : 0;
        for (int round = 0; round < 12; round++)
            for (int k = 0; k < 8; k++) { /* four columns, then four diagonals */
                uint64_t x = words[order[round % 10][2 * k]], y = words[order[round % 10][2 * k + 1]];
                int diagonal = k / 4;
                uint64_t *a = &v[k % 4], *b = &v[4 + (k + diagonal) % 4];
                uint64_t *c = &v[8 + (k + 2 * diagonal) % 4], *d = &v[12 + (k + 3 * diagonal) % 4];
                *a += *b + x;
                *d = (*d ^ *a) >> 32 | (*d ^ *a) << 32;
                *c += *d;
                *b = (*b ^ *c) >> 24 | (*b ^ *c) << 40;
                *a += *b + y;
                *d = (*d ^ *a) >> 16 | (*d ^ *a) << 48;
                *c += *d;
                *b = (*b ^ *c) >> 63 | (*b ^ *c) << 1;
            }
        for (int k = 0; k < 8; k++)
            state[k] ^= v[k] ^ v[k + 8];
        if (last)
            return state[0];
    }
}

static uint8_t *write_cells(uint8_t *text, int size, const int *cells, int count) /* as "0, 1, 2, 3" */
{
    for (int k = 0; k < 2 * count; k++) {
        int cell = cells[k / 2];
        *text++ = (uint8_t)('0' + (k % 2 ? cell % size : cell / size));
        *text++ = ',';
        *text++ = ' ';
    }
    return text - 2;
}

static uint8_t *write_tuples(uint8_t *text, int size, const int *cells, int each, int count)
{
    *text++ = '(';
    for (int k = 0; k < count; k++) {
        *text++ = '(';
        text = write_cells(text, size, cells + each * k, each);
        *text++ = ')';
        *text++ = ',';
        *text++ = ' ';
    }
    text -= count > 1 ? 2 : count;
    *text++ = ')';
    return text;
}

static int turned(int cell, int k, int size)
{
    int row = cell / size, col = cell % size, last = size - 1;
    int first = k < 4 ? row : col, second = k < 4 ? col : row;
    return (k & 1 ? last - first : first) * size + (k & 2 ? last - second : second);
}

/* Cells are row * size + col, holes before starts before goals. */
static int bucket(int size, const Cell *board, int holes, int count)
{
    int best[2 * AGENTS], least[CELLS], none = 1;
    uint8_t taken[CELLS];
    for (int k = 0; k < 8; k++) {
        int image[2 * AGENTS], order = none ? -1 : 0;
        uint8_t marks[CELLS] = {0};
        for (int i = 0; i < count; i++) { /* sorted by start: no two are equal */
            int start = turned(board[holes + i], k, size), goal = turned(board[holes + count + i], k, size), at = i;
            for (; at && image[2 * at - 2] > start; at--)
                memcpy(image + 2 * at, image + 2 * at - 2, 2 * sizeof *image);
            image[2 * at] = start;
            image[2 * at + 1] = goal;
        }
        for (int i = 0; i < 2 * count && !order; i++)
            order = image[i] - best[i];
        if (order > 0)
            continue;
        for (int h = 0; h < holes; h++)
            marks[turned(board[h], k, size)] = 1;
        if (order < 0 || memcmp(marks, taken, sizeof marks) > 0) { /* whose first hole comes first */
            memcpy(best, image, sizeof image);
            memcpy(taken, marks, sizeof marks);
        }
        none = 0;
    }
    for (int cell = 0, h = 0; h < holes; cell++)
        if (taken[cell])
            least[h++] = cell;
    uint8_t text[16 * AGENTS + 8 * CELLS + 16], *end = text; /* "(10, ((0, 1, 2, 3), ...), ((4, 5), ...))" */
    *end++ = '(';
    if (size > 9)
        *end++ = '1';
    *end++ = (uint8_t)('0' + size % 10);
    *end++ = ',';
    *end++ = ' ';
    end = write_tuples(end, size, best, 2, count);
    *end++ = ',';
    *end++ = ' ';
    end = write_tuples(end, size, least, 1, holes);
    *end++ = ')';
    return (int)(blake2b(text, (size_t)(end - text)) % 10);
}
