/* An arena that the next search in the same space reuses, growing arrays, and a hash map of 128-bit keys. */
#pragma once
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 Key;
typedef uint8_t Cell;

#ifdef SANITIZE /* every array is a block of its own, so that AddressSanitizer sees where it ends */
enum { BLOCK = 0, KEPT = 0 };
#else
enum { BLOCK = 1 << 20, KEPT = 1 << 26 }; /* bytes of a block, and bytes kept between searches */
#endif
enum { NO_MEMORY = 5 }; /* a status: the jump when there is no more */

typedef struct Block {
    struct Block *next;
    size_t size;
    _Alignas(16) char bytes[];
} Block;

typedef struct {
    Block *first, *block; /* the one in use */
    size_t used;
    jmp_buf over; /* no plan, no memory */
} Arena;

static void recycle(Arena *arena)
{
    size_t kept = 0;
    for (Block **next = &arena->first; *next;) {
        Block *here = *next;
        kept += here->size;
        if (kept <= KEPT) {
            next = &here->next;
        } else {
            *next = here->next;
            free(here);
        }
    }
    arena->block = NULL;
}

static void *get(Arena *arena, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    while (arena->block == NULL || arena->used + size > arena->block->size) {
        Block *next = arena->block ? arena->block->next : arena->first;
        if (next == NULL) {
            size_t room = size > BLOCK ? size : BLOCK;
            next = malloc(sizeof *next + room);
            if (next == NULL)
                longjmp(arena->over, NO_MEMORY);
            next->next = NULL;
            next->size = room;
            *(arena->block ? &arena->block->next : &arena->first) = next;
        }
        arena->block = next;
        arena->used = 0;
    }
    void *here = arena->block->bytes + arena->used;
    arena->used += size;
    return here;
}

static void *grown(Arena *arena, void *old, size_t count, size_t *room, size_t each)
{
    if (count < *room)
        return old;
    *room = *room ? 2 * *room : 16;
    void *new = get(arena, *room * each);
    if (count)
        memcpy(new, old, count * each);
    return new;
}

/* A hash map from 128-bit keys to numbers (or pointers) that are not 0; with 1 for each key, a set. */
typedef struct {
    Key key;
    uintptr_t value;
} Item;

typedef struct {
    Item *items;
    size_t count, room;
} Map;

static Item *map_find(const Map *map, Key key)
{
    uint64_t mixed = ((uint64_t)key ^ (uint64_t)(key >> 64) * 0xC2B2AE3D27D4EB4Fu) * 0x9E3779B97F4A7C15u;
    size_t at = (size_t)(mixed >> 32) & (map->room - 1);
    while (map->items[at].value && map->items[at].key != key)
        at = (at + 1) & (map->room - 1);
    return &map->items[at];
}

static uintptr_t *map_at(Arena *arena, Map *map, Key key) /* its value, 0 if it is new: then it has to be set */
{
    if (2 * map->count >= map->room) {
        Map old = *map;
        map->room = old.room ? 2 * old.room : 64;
        map->items = get(arena, map->room * sizeof *map->items);
        for (size_t k = 0; k < map->room; k++)
            map->items[k].value = 0;
        for (size_t k = 0; k < old.room; k++)
            if (old.items[k].value)
                *map_find(map, old.items[k].key) = old.items[k];
    }
    Item *item = map_find(map, key);
    if (!item->value) {
        item->key = key;
        map->count++;
    }
    return &item->value;
}

static uintptr_t map_get(const Map *map, Key key) { return map->room ? map_find(map, key)->value : 0; } /* 0 if it is not there */
