/* The board, its agents, and their layers. Without `waits` an agent moves at every step before it arrives. */
#pragma once
#include "memory.h"

#ifdef SMALL /* boards up to 7x7 */
enum { AGENTS = 10, CELLS = 64 }; /* at most */
typedef uint64_t Set;             /* of cells */
static inline Set joined(uint64_t low, uint64_t high) { return low | 0 * high; }
static inline uint64_t upper(Set set) { return 0 * set; }
#else
enum { AGENTS = 10, CELLS = 128 };
typedef unsigned __int128 Set;
static inline Set joined(uint64_t low, uint64_t high) { return (Set)high << 64 | low; }
static inline uint64_t upper(Set set) { return (uint64_t)(set >> 64); }
#endif

enum { SOLVED, APART, PAIR, NONE, BUDGET }; /* ends of a search, as in ../plain.py */

typedef struct {
    Set *at;
    size_t count, room;
} Sets;

typedef struct {
    int horizon;
    Set *rows; /* [horizon + 1][stride]: for a time and a cell of one agent the cells of the other */
} Table;

typedef struct {
    int slack, free; /* slack 0: not made yet */
    int *then_i, *then_j;
} Stairs;

typedef struct {
    Cell start, goal;
    int distance;
    Sets balls, reach, ahead, back;
    Set **layers[2];
    size_t room[2];
    Cell order[CELLS][5];
    int8_t options[CELLS]; /* how many of `order`; 0: not known yet */
} Agent;

typedef struct {
    Cell *cells[AGENTS];
    int count[AGENTS];
} Paths;

typedef struct {
    int count, who[AGENTS], costs[AGENTS];
} Nogood;

/* All that a search writes to: what it knows of its board, and its memory. A space is for one search at a time; searches in two
 * spaces can run at the same time, in two threads, since nothing else in the kernel is ever written to. */
typedef struct {
    Arena arena;
    int width, stride, agents;
    int distances, farthest; /* the sum over agents, and the largest */
    Set field;               /* the free cells */
    Agent agent[AGENTS];
    int64_t nodes, budget;
    Stairs stairs[AGENTS][AGENTS];
    Nogood *nogoods; /* agents and costs that cannot all be met */
    size_t nogood_count, nogood_room;
    Map possible;   /* threes of agents and costs that can all be met */
    Map pairs;      /* two agents and costs -> their Table */
    jmp_buf *ended; /* nodes are spent */
    int reason[2];  /* the agents that have no plan */
} Space;

static const Table never, always; /* marks */

static inline Set bit(int cell) { return (Set)1 << cell; }
static inline int larger(int a, int b) { return a > b ? a : b; }
static inline int has(Set set, int cell) { return (int)(set >> cell) & 1; }
static inline Set around(int width, Set set) { return set << 1 | set >> 1 | set << width | set >> width; }
static inline Set spread(int width, Set set) { return set | around(width, set); }

static inline int pop(Set *set)
{
    uint64_t low = (uint64_t)*set;
    int cell = low ? __builtin_ctzll(low) : 64 + __builtin_ctzll(upper(*set));
    *set &= *set - 1;
    return cell;
}

static void spend(Space *s, int64_t count)
{
    s->nodes += count;
    if (s->nodes > s->budget)
        longjmp(*s->ended, 1);
}

static void append(Space *s, Sets *sets, Set set)
{
    sets->at = grown(&s->arena, sets->at, sets->count, &sets->room, sizeof set);
    sets->at[sets->count++] = set;
}

static void grow(Space *s, Sets *sets, int last, int waits)
{
    while ((int)sets->count <= last) {
        Set cells = sets->at[sets->count - 1];
        append(s, sets, (waits ? spread(s->width, cells) : around(s->width, cells)) & s->field);
    }
}

static void set_up(Space *s, int size, Set holes, int count, const Cell *starts, const Cell *goals, int64_t most)
{
    recycle(&s->arena);
    s->width = size + 1;
    s->stride = s->width * s->width;
    s->agents = count;
    s->field = 0;
    for (int row = 0; row < size; row++)
        s->field |= ((bit(size) - 1) << (row + 1) * s->width);
    s->field &= ~holes;
    s->nodes = s->distances = s->farthest = 0;
    s->budget = most;
    memset(s->stairs, 0, sizeof s->stairs);
    s->nogood_count = s->nogood_room = 0;
    memset(&s->possible, 0, sizeof s->possible);
    memset(&s->pairs, 0, sizeof s->pairs);
    for (int i = 0; i < count; i++) {
        Agent *a = &s->agent[i];
        memset(a, 0, sizeof *a);
        a->start = starts[i];
        a->goal = goals[i];
        append(s, &a->balls, bit(a->goal));
        Set cells = bit(a->goal);
        while (!has(cells, a->start)) {
            Set more = spread(s->width, cells) & s->field;
            if (more == cells) {
                s->reason[0] = i;
                longjmp(s->arena.over, APART);
            }
            append(s, &a->balls, cells = more);
        }
        a->distance = (int)a->balls.count - 1;
        s->distances += a->distance;
        s->farthest = larger(s->farthest, a->distance);
        append(s, &a->reach, bit(a->start));
        append(s, &a->ahead, bit(a->start));
        append(s, &a->back, bit(a->goal));
    }
}

static Paths *shortest(Space *s)
{
    Paths *paths = get(&s->arena, sizeof *paths);
    for (int i = 0; i < s->agents; i++) {
        Agent *a = &s->agent[i];
        int cell = a->start;
        paths->count[i] = a->distance + 1;
        Cell *path = paths->cells[i] = get(&s->arena, a->distance + 1);
        path[0] = a->start;
        for (int k = a->distance - 1; k >= 0; k--) {
            Set ball = a->balls.at[k];
            if (has(ball, cell - s->width))
                cell -= s->width;
            else if (cell + s->width < CELLS && has(ball, cell + s->width))
                cell += s->width;
            else if (has(ball, cell - 1))
                cell -= 1;
            else
                cell += 1;
            path[a->distance - k] = (Cell)cell;
        }
    }
    return paths;
}

static Set *layers(Space *s, int i, int cost, int waits)
{
    Agent *a = &s->agent[i];
    if ((size_t)cost >= a->room[waits]) {
        size_t room = 2 * (size_t)cost + 16;
        Set **all = get(&s->arena, room * sizeof *all);
        memset(all, 0, room * sizeof *all);
        if (a->room[waits])
            memcpy(all, a->layers[waits], a->room[waits] * sizeof *all);
        a->layers[waits] = all;
        a->room[waits] = room;
    }
    Set *made = a->layers[waits][cost];
    if (made == NULL) {
        Sets *ahead = waits ? &a->reach : &a->ahead, *back = waits ? &a->balls : &a->back;
        grow(s, ahead, cost, waits);
        grow(s, back, cost, waits);
        made = a->layers[waits][cost] = get(&s->arena, (cost + 1) * sizeof *made);
        for (int t = 0; t <= cost; t++)
            made[t] = ahead->at[t] & back->at[cost - t];
    }
    return made;
}
