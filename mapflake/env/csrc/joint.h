/* A* over joint states, with buckets for a heap, for boards with few of them: complete. A state is one cell for each agent, and
 * for the sum of costs also the agents that are parked: on their goals for good, at no more cost. */
#pragma once
#include "costs.h"

typedef struct {
    uint64_t key;    /* see with_cell; 0: not reached */
    int best;        /* the least cost so far */
    uint32_t parent; /* 1 + its place, 0 for none */
} State;

typedef struct {
    uint32_t state, next; /* entries are numbered from 1 */
} Entry;

typedef struct {
    uint32_t first, last; /* entries: a queue */
} Bucket;

typedef struct {
    int count;
    Cell to[5];
} Options;

typedef struct {
    Space *s;
    int agents, makespan, below;
    int ranks[CELLS], bits; /* a free cell's number among them, and how many bits such a number takes */
    Cell ranked[CELLS];
    int far[AGENTS][CELLS];
    Options moves[CELLS];
    State *states; /* a hash table with room for all */
    int shift;
    Bucket *buckets; /* [rows][columns]: by bound above the first one, and by what is left to go */
    size_t rows, columns, room;
    size_t row, column; /* of the bucket in use */
    int first_bound;
    Entry *entries;
    size_t count, entry_room;
    /* of the state that is expanded */
    Cell cells[AGENTS], left_by[CELLS]; /* 1 + where the agent that goes to a cell comes from, 0: no one does */
    int parked, cost;
    uint32_t origin;
} Joint;

/* A key has a one, then a bit for each agent that is parked, then the ranks of their cells. */
static uint64_t with_cell(Joint *j, uint64_t key, int cell) { return key << j->bits | (uint64_t)j->ranks[cell]; }

static int cell_of(Joint *j, uint64_t key, int k)
{
    return j->ranked[key >> (j->agents - 1 - k) * j->bits & (((uint64_t)1 << j->bits) - 1)];
}

static void push(Joint *j, uint64_t key, int left)
{
    int cost = j->cost;
    if (j->below >= 0 && cost + left >= j->below)
        return;
    size_t at = (size_t)(key * 0x9E3779B97F4A7C15u >> j->shift), last = ((size_t)1 << (64 - j->shift)) - 1;
    while (j->states[at].key && j->states[at].key != key)
        at = (at + 1) & last;
    State *state = &j->states[at];
    if (state->key && state->best <= cost)
        return;
    *state = (State){key, cost, j->origin};

    size_t row = (size_t)(cost + left - j->first_bound);
    for (; j->rows <= row; j->rows++) {
        j->buckets = grown(&j->s->arena, j->buckets, j->rows, &j->room, j->columns * sizeof(Bucket));
        memset(j->buckets + j->rows * j->columns, 0, j->columns * sizeof(Bucket));
    }
    if (row == j->row && (size_t)left < j->column) /* no bound is less than that of the origin */
        j->column = (size_t)left;
    j->entries = grown(&j->s->arena, j->entries, j->count, &j->entry_room, sizeof(Entry));
    j->entries[j->count++] = (Entry){(uint32_t)at, 0};
    Bucket *bucket = &j->buckets[row * j->columns + (size_t)left];
    *(bucket->first ? &j->entries[bucket->last - 1].next : &bucket->first) = (uint32_t)j->count;
    bucket->last = (uint32_t)j->count;
}

static int pop_state(Joint *j, uint32_t *state, int *cost) /* of the least bound, of these the most cost, of these the first */
{
    while (j->row < j->rows) {
        Bucket *bucket = &j->buckets[j->row * j->columns + j->column];
        if (bucket->first) {
            Entry entry = j->entries[bucket->first - 1];
            bucket->first = entry.next;
            *state = entry.state;
            *cost = j->first_bound + (int)j->row - (int)j->column;
            return 1;
        }
        if (++j->column == j->columns) {
            j->row++;
            j->column = 0;
        }
    }
    return 0;
}

static void push_parkings(Joint *j, uint64_t key, int left, int home) /* larger sets first */
{
    for (int now = home;; now = (now - 1) & home) {
        push(j, key | (uint64_t)now << j->agents * j->bits, left);
        if (!now)
            return;
    }
}

static void push_moves(Joint *j, int k, uint64_t key, int left, int home)
{
    if (k == j->agents) {
        push_parkings(j, key, left, j->makespan ? 0 : home);
        return;
    }
    int cell = j->cells[k], parked = j->parked >> k & 1, swap = j->left_by[cell] - 1;
    const Options *moves = &j->moves[cell];
    for (int o = 0; o < (parked ? 1 : moves->count); o++) {
        int to = parked ? cell : moves->to[o];
        if (j->left_by[to] || to == swap)
            continue;
        int far = j->far[k][to];
        j->left_by[to] = (Cell)(cell + 1);
        push_moves(j, k + 1, with_cell(j, key, to), j->makespan ? larger(left, far) : left + far,
                   home | (!parked && !far) << k);
        j->left_by[to] = 0;
    }
}

static Joint *prepare(Space *s, int makespan, int waits, int below)
{
    Joint *j = get(&s->arena, sizeof *j);
    memset(j, 0, sizeof *j);
    j->s = s;
    j->agents = s->agents;
    j->makespan = makespan;
    j->below = below;
    int cells = 0, most = 0;
    for (Set rest = s->field; rest; cells++) {
        int cell = pop(&rest), next[5] = {cell, cell - s->width, cell + s->width, cell - 1, cell + 1};
        Options *moves = &j->moves[cell];
        j->ranks[cell] = cells;
        j->ranked[cells] = (Cell)cell;
        for (int o = !waits; o < 5; o++)
            if (next[o] < CELLS && has(s->field, next[o]))
                moves->to[moves->count++] = (Cell)next[o];
    }
    while (cells >> j->bits)
        j->bits++;
    for (int k = 0; k < j->agents; k++) {
        Set seen = bit(s->agent[k].goal), new = seen;
        int far = 0;
        for (; new; far++) {
            for (Set rest = new; rest;)
                j->far[k][pop(&rest)] = far;
            new = spread(s->width, seen) & s->field & ~seen;
            seen |= new;
        }
        most = makespan ? larger(most, far) : most + far;
    }
    j->columns = (size_t)most + 1;

    uint64_t states = 0, chosen = 1; /* for every number of agents: who is parked, and where the others can be */
    for (int parked = 0; parked <= (makespan ? 0 : j->agents); parked++) {
        uint64_t places = chosen;
        for (int k = parked; k < j->agents; k++)
            places *= (uint64_t)(cells - k);
        states += places;
        chosen = chosen * (uint64_t)(j->agents - parked) / (uint64_t)(parked + 1);
    }
    for (j->shift = 63; (uint64_t)1 << (64 - j->shift) < 2 * states;)
        j->shift--;
    j->states = get(&s->arena, sizeof(State) << (64 - j->shift));
    memset(j->states, 0, sizeof(State) << (64 - j->shift));
    return j;
}

static Paths *joint_paths(Joint *j, const State *last)
{
    int count = 1;
    for (const State *state = last; state->parent; state = &j->states[state->parent - 1])
        count++;
    Paths *paths = get(&j->s->arena, sizeof *paths);
    for (int k = 0; k < j->agents; k++) {
        paths->count[k] = count;
        paths->cells[k] = get(&j->s->arena, count);
    }
    const State *state = last;
    for (int t = count - 1;; state = &j->states[state->parent - 1], t--) {
        for (int k = 0; k < j->agents; k++)
            paths->cells[k][t] = (Cell)cell_of(j, state->key, k);
        if (!t)
            return paths;
    }
}

static Paths *joint_search(Space *s, int makespan, int waits, int below)
{
    Joint *j = prepare(s, makespan, waits, below);
    uint64_t first = (uint64_t)1 << j->agents, target = makespan ? first : 2 * first - 1;
    int left = 0, home = 0, cost;
    for (int k = 0; k < j->agents; k++) {
        int far = j->far[k][s->agent[k].start];
        first = with_cell(j, first, s->agent[k].start);
        target = with_cell(j, target, s->agent[k].goal);
        left = makespan ? larger(left, far) : left + far;
        home |= !far << k;
    }
    j->first_bound = left;
    push_parkings(j, first, left, makespan ? 0 : home);
    for (uint32_t at; pop_state(j, &at, &cost);) {
        State state = j->states[at];
        if (cost > state.best)
            continue;
        if (state.key == target)
            return joint_paths(j, &j->states[at]);
        spend(s, 1);
        for (int k = 0; k < j->agents; k++)
            j->cells[k] = (Cell)cell_of(j, state.key, k);
        j->parked = (int)(state.key >> j->agents * j->bits) & ((1 << j->agents) - 1);
        j->cost = cost + (makespan ? 1 : j->agents - __builtin_popcount((unsigned)j->parked));
        j->origin = at + 1;
        push_moves(j, 0, state.key >> j->agents * j->bits, 0, 0);
    }
    return NULL;
}
