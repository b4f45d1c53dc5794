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

static struct {
    int makespan, below;
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
} joint;

/* A key has a one, then a bit for each agent that is parked, then the ranks of their cells. */
static uint64_t with_cell(uint64_t key, int cell) { return key << joint.bits | (uint64_t)joint.ranks[cell]; }

static int cell_of(uint64_t key, int k)
{
    return joint.ranked[key >> (agents - 1 - k) * joint.bits & (((uint64_t)1 << joint.bits) - 1)];
}

static void push(uint64_t key, int left)
{
    int cost = joint.cost;
    if (joint.below >= 0 && cost + left >= joint.below)
        return;
    size_t at = (size_t)(key * 0x9E3779B97F4A7C15u >> joint.shift), last = ((size_t)1 << (64 - joint.shift)) - 1;
    while (joint.states[at].key && joint.states[at].key != key)
        at = (at + 1) & last;
    State *state = &joint.states[at];
    if (state->key && state->best <= cost)
        return;
    *state = (State){key, cost, joint.origin};

    size_t row = (size_t)(cost + left - joint.first_bound);
    for (; joint.rows <= row; joint.rows++) {
        joint.buckets = grown(joint.buckets, joint.rows, &joint.room, joint.columns * sizeof(Bucket));
        memset(joint.buckets + joint.rows * joint.columns, 0, joint.columns * sizeof(Bucket));
    }
    if (row == joint.row && (size_t)left < joint.column) /* no bound is less than that of the origin */
        joint.column = (size_t)left;
    joint.entries = grown(joint.entries, joint.count, &joint.entry_room, sizeof(Entry));
    joint.entries[joint.count++] = (Entry){(uint32_t)at, 0};
    Bucket *bucket = &joint.buckets[row * joint.columns + (size_t)left];
    *(bucket->first ? &joint.entries[bucket->last - 1].next : &bucket->first) = (uint32_t)joint.count;
    bucket->last = (uint32_t)joint.count;
}

static int pop_state(uint32_t *state, int *cost) /* of the least bound, of these the most cost, of these the first */
{
    while (joint.row < joint.rows) {
        Bucket *bucket = &joint.buckets[joint.row * joint.columns + joint.column];
        if (bucket->first) {
            Entry entry = joint.entries[bucket->first - 1];
            bucket->first = entry.next;
            *state = entry.state;
            *cost = joint.first_bound + (int)joint.row - (int)joint.column;
            return 1;
        }
        if (++joint.column == joint.columns) {
            joint.row++;
            joint.column = 0;
        }
    }
    return 0;
}

static void push_parkings(uint64_t key, int left, int home) /* larger sets first */
{
    for (int now = home;; now = (now - 1) & home) {
        push(key | (uint64_t)now << agents * joint.bits, left);
        if (!now)
            return;
    }
}

static void push_moves(int k, uint64_t key, int left, int home)
{
    if (k == agents) {
        push_parkings(key, left, joint.makespan ? 0 : home);
        return;
    }
    int cell = joint.cells[k], parked = joint.parked >> k & 1, swap = joint.left_by[cell] - 1;
    const Options *moves = &joint.moves[cell];
    for (int o = 0; o < (parked ? 1 : moves->count); o++) {
        int to = parked ? cell : moves->to[o];
        if (joint.left_by[to] || to == swap)
            continue;
        int far = joint.far[k][to];
        joint.left_by[to] = (Cell)(cell + 1);
        push_moves(k + 1, with_cell(key, to), joint.makespan ? larger(left, far) : left + far,
                   home | (!parked && !far) << k);
        joint.left_by[to] = 0;
    }
}

static void prepare(int makespan, int waits, int below)
{
    memset(&joint, 0, sizeof joint);
    joint.makespan = makespan;
    joint.below = below;
    int cells = 0, most = 0;
    for (Set rest = field; rest; cells++) {
        int cell = pop(&rest), next[5] = {cell, cell - width, cell + width, cell - 1, cell + 1};
        Options *moves = &joint.moves[cell];
        joint.ranks[cell] = cells;
        joint.ranked[cells] = (Cell)cell;
        for (int o = !waits; o < 5; o++)
            if (next[o] < CELLS && has(field, next[o]))
                moves->to[moves->count++] = (Cell)next[o];
    }
    while (cells >> joint.bits)
        joint.bits++;
    for (int k = 0; k < agents; k++) {
        Set seen = bit(agent[k].goal), new = seen;
        int far = 0;
        for (; new; far++) {
            for (Set rest = new; rest;)
                joint.far[k][pop(&rest)] = far;
            new = spread(seen) & field & ~seen;
            seen |= new;
        }
        most = makespan ? larger(most, far) : most + far;
    }
    joint.columns = (size_t)most + 1;

    uint64_t states = 0, chosen = 1; /* for every number of agents: who is parked, and where the others can be */
    for (int parked = 0; parked <= (makespan ? 0 : agents); parked++) {
        uint64_t places = chosen;
        for (int k = parked; k < agents; k++)
            places *= (uint64_t)(cells - k);
        states += places;
        chosen = chosen * (uint64_t)(agents - parked) / (uint64_t)(parked + 1);
    }
    for (joint.shift = 63; (uint64_t)1 << (64 - joint.shift) < 2 * states;)
        joint.shift--;
    joint.states = get(sizeof(State) << (64 - joint.shift));
    memset(joint.states, 0, sizeof(State) << (64 - joint.shift));
}

static Paths *joint_paths(const State *last)
{
    int count = 1;
    for (const State *state = last; state->parent; state = &joint.states[state->parent - 1])
        count++;
    Paths *paths = get(sizeof *paths);
    for (int k = 0; k < agents; k++) {
        paths->count[k] = count;
        paths->cells[k] = get(count);
    }
    const State *state = last;
    for (int t = count - 1;; state = &joint.states[state->parent - 1], t--) {
        for (int k = 0; k < agents; k++)
            paths->cells[k][t] = (Cell)cell_of(state->key, k);
        if (!t)
            return paths;
    }
}

static Paths *joint_search(int makespan, int waits, int below)
{
    prepare(makespan, waits, below);
    uint64_t first = (uint64_t)1 << agents, target = makespan ? first : 2 * first - 1;
    int left = 0, home = 0, cost;
    for (int k = 0; k < agents; k++) {
        int far = joint.far[k][agent[k].start];
        first = with_cell(first, agent[k].start);
        target = with_cell(target, agent[k].goal);
        left = makespan ? larger(left, far) : left + far;
        home |= !far << k;
    }
    joint.first_bound = left;
    push_parkings(first, left, makespan ? 0 : home);
    for (uint32_t at; pop_state(&at, &cost);) {
        State state = joint.states[at];
        if (cost > state.best)
            continue;
        if (state.key == target)
            return joint_paths(&joint.states[at]);
        spend(1);
        for (int k = 0; k < agents; k++)
            joint.cells[k] = (Cell)cell_of(state.key, k);
        joint.parked = (int)(state.key >> agents * joint.bits) & ((1 << agents) - 1);
        joint.cost = cost + (makespan ? 1 : agents - __builtin_popcount((unsigned)joint.parked));
        joint.origin = at + 1;
        push_moves(0, state.key >> agents * joint.bits, 0, 0);
    }
    return NULL;
}
