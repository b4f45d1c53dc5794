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

static int width, stride, agents;
static int distances, farthest; /* the sum over agents, and the largest */
static Set field; /* the free cells */
static Agent agent[AGENTS];
static int64_t nodes, budget;
static Stairs stairs[AGENTS][AGENTS];

typedef struct {
    int count, who[AGENTS], costs[AGENTS];
} Nogood;

static Nogood *nogoods; /* agents and costs that cannot all be met */
static size_t nogood_count, nogood_room;
static Map possible;   /* threes of agents and costs that can all be met */
static Map pairs;      /* two agents and costs -> their Table */
static jmp_buf *ended; /* nodes are spent */
static int reason[2];  /* the agents that have no plan */
static Table never, always;

static inline Set bit(int cell) { return (Set)1 << cell; }
static inline int larger(int a, int b) { return a > b ? a : b; }
static inline int has(Set set, int cell) { return (int)(set >> cell) & 1; }
static inline Set spread(Set set) { return set | set << 1 | set >> 1 | set << width | set >> width; }
static inline Set around(Set set) { return set << 1 | set >> 1 | set << width | set >> width; }

static inline int pop(Set *set)
{
    uint64_t low = (uint64_t)*set;
    int cell = low ? __builtin_ctzll(low) : 64 + __builtin_ctzll(upper(*set));
    *set &= *set - 1;
    return cell;
}

static void spend(int64_t count)
{
    nodes += count;
    if (nodes > budget)
        longjmp(*ended, 1);
}

static void append(Sets *sets, Set set)
{
    sets->at = grown(sets->at, sets->count, &sets->room, sizeof set);
    sets->at[sets->count++] = set;
}

static void grow(Sets *sets, int last, int waits)
{
    while ((int)sets->count <= last) {
        Set cells = sets->at[sets->count - 1];
        append(sets, (waits ? spread(cells) : around(cells)) & field);
    }
}

static void set_up(int size, const uint64_t holes[2], int count, const Cell *starts, const Cell *goals, int64_t most)
{
    recycle();
    width = size + 1;
    stride = width * width;
    agents = count;
    field = 0;
    for (int row = 0; row < size; row++)
        field |= ((bit(size) - 1) << (row + 1) * width);
    field &= ~joined(holes[0], holes[1]);
    nodes = distances = farthest = 0;
    budget = most;
    memset(stairs, 0, sizeof stairs);
    nogood_count = nogood_room = 0;
    memset(&possible, 0, sizeof possible);
    memset(&pairs, 0, sizeof pairs);
    for (int i = 0; i < count; i++) {
        Agent *a = &agent[i];
        memset(a, 0, sizeof *a);
        a->start = starts[i];
        a->goal = goals[i];
        append(&a->balls, bit(a->goal));
        Set cells = bit(a->goal);
        while (!has(cells, a->start)) {
            Set more = spread(cells) & field;
            if (more == cells) {
                reason[0] = i;
                longjmp(over, APART);
            }
            append(&a->balls, cells = more);
        }
        a->distance = (int)a->balls.count - 1;
        distances += a->distance;
        farthest = larger(farthest, a->distance);
        append(&a->reach, bit(a->start));
        append(&a->ahead, bit(a->start));
        append(&a->back, bit(a->goal));
    }
}

static Paths *shortest(void)
{
    Paths *paths = get(sizeof *paths);
    for (int i = 0; i < agents; i++) {
        Agent *a = &agent[i];
        int cell = a->start;
        paths->count[i] = a->distance + 1;
        Cell *path = paths->cells[i] = get(a->distance + 1);
        path[0] = a->start;
        for (int k = a->distance - 1; k >= 0; k--) {
            Set ball = a->balls.at[k];
            if (has(ball, cell - width))
                cell -= width;
            else if (cell + width < CELLS && has(ball, cell + width))
                cell += width;
            else if (has(ball, cell - 1))
                cell -= 1;
            else
                cell += 1;
            path[a->distance - k] = (Cell)cell;
        }
    }
    return paths;
}

static Set *layers(int i, int cost, int waits)
{
    Agent *a = &agent[i];
    if ((size_t)cost >= a->room[waits]) {
        size_t room = 2 * (size_t)cost + 16;
        Set **all = get(room * sizeof *all);
        memset(all, 0, room * sizeof *all);
        if (a->room[waits])
            memcpy(all, a->layers[waits], a->room[waits] * sizeof *all);
        a->layers[waits] = all;
        a->room[waits] = room;
    }
    Set *made = a->layers[waits][cost];
    if (made == NULL) {
        Sets *ahead = waits ? &a->reach : &a->ahead, *back = waits ? &a->balls : &a->back;
        grow(ahead, cost, waits);
        grow(back, cost, waits);
        made = a->layers[waits][cost] = get((cost + 1) * sizeof *made);
        for (int t = 0; t <= cost; t++)
            made[t] = ahead->at[t] & back->at[cost - t];
    }
    return made;
}
