/* joint.py. */
#pragma once
#include "costs.h"

typedef struct {
    int bound, cost;
    uint32_t order, state;
} Entry;

typedef struct {
    Set key; /* parked agents above, cells of 7 bits below */
    int best;
    uint32_t parent; /* 1 + its number, 0 for none */
} State;

static struct {
    Map map;
    State *states;
    size_t state_room;
    Entry *heap;
    size_t count, heap_room;
    uint32_t order;
    int far[AGENTS][CELLS], makespan, waits, below;
} joint;

static int before(const Entry *a, const Entry *b)
{
    if (a->bound != b->bound)
        return a->bound < b->bound;
    if (a->cost != b->cost)
        return a->cost > b->cost;
    return a->order < b->order;
}

static void push(const Cell *cells, int parked, int cost, uint32_t origin)
{
    int left = 0;
    for (int k = 0; k < agents; k++)
        if (!(parked >> k & 1)) {
            int far = joint.far[k][cells[k]];
            left = joint.makespan ? (far > left ? far : left) : left + far;
        }
    if (joint.below >= 0 && cost + left >= joint.below)
        return;
    uint32_t *number = map_at(&joint.map, packed(cells, agents) | (Set)parked << 80);
    if (!*number) {
        *number = (uint32_t)joint.map.count;
        joint.states = grown(joint.states, *number - 1, &joint.state_room, sizeof *joint.states);
        joint.states[*number - 1] = (State){packed(cells, agents) | (Set)parked << 80, cost, origin};
    } else if (joint.states[*number - 1].best > cost) {
        joint.states[*number - 1].best = cost;
        joint.states[*number - 1].parent = origin;
    } else {
        return;
    }
    joint.heap = grown(joint.heap, joint.count, &joint.heap_room, sizeof *joint.heap);
    Entry entry = {cost + left, cost, joint.order++, *number - 1};
    size_t at = joint.count++;
    for (; at && before(&entry, &joint.heap[(at - 1) / 2]); at = (at - 1) / 2)
        joint.heap[at] = joint.heap[(at - 1) / 2];
    joint.heap[at] = entry;
}

static Entry pop_entry(void)
{
    Entry first = joint.heap[0], last = joint.heap[--joint.count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= joint.count)
            break;
        if (child + 1 < joint.count && before(&joint.heap[child + 1], &joint.heap[child]))
            child++;
        if (!before(&joint.heap[child], &last))
            break;
        joint.heap[at] = joint.heap[child];
        at = child;
    }
    joint.heap[at] = last;
    return first;
}

static void push_parkings(const Cell *cells, int parked, int cost, uint32_t origin)
{
    int sets[1 << AGENTS], count = 1;
    sets[0] = parked;
    for (int k = 0; k < agents; k++)
        if (cells[k] == agent[k].goal && !(parked >> k & 1)) {
            memmove(sets + count, sets, count * sizeof *sets);
            for (int s = 0; s < count; s++)
                sets[s] |= 1 << k;
            count *= 2;
        }
    for (int s = 0; s < count; s++)
        push(cells, sets[s], cost, origin);
}

static void push_moves(const Cell *cells, Cell *after, int k, int parked, int cost, uint32_t origin)
{
    if (k == agents) {
        if (joint.makespan)
            push(after, 0, cost, origin);
        else
            push_parkings(after, parked, cost, origin);
        return;
    }
    int cell = cells[k], stays = parked >> k & 1, to[5], count = 0;
    if (joint.waits || stays)
        to[count++] = cell;
    int next[4] = {cell - width, cell + width, cell - 1, cell + 1};
    for (int d = 0; d < 4 && !stays; d++)
        if (next[d] < CELLS && has(field, next[d]))
            to[count++] = next[d];
    for (int o = 0; o < count; o++) {
        int m = 0;
        while (m < k && to[o] != after[m] && !(to[o] == cells[m] && after[m] == cell))
            m++;
        if (m == k) {
            after[k] = (Cell)to[o];
            push_moves(cells, after, k + 1, parked, cost, origin);
        }
    }
}

static Paths *joint_search(int makespan, int waits, int below)
{
    memset(&joint, 0, sizeof joint);
    joint.makespan = makespan;
    joint.waits = waits;
    joint.below = below;
    Cell cells[AGENTS] = {0}, after[AGENTS], goals[AGENTS];
    for (int k = 0; k < agents; k++) {
        cells[k] = agent[k].start;
        goals[k] = agent[k].goal;
        Set seen = bit(agent[k].goal), new = seen;
        for (int far = 0; new; far++) {
            for (Set rest = new; rest;)
                joint.far[k][pop(&rest)] = far;
            new = spread(seen) & field & ~seen;
            seen |= new;
        }
    }
    if (makespan)
        push(cells, 0, 0, 0);
    else
        push_parkings(cells, 0, 0, 0);
    Set target = packed(goals, agents);
    while (joint.count) {
        Entry entry = pop_entry();
        State state = joint.states[entry.state];
        if (entry.cost > state.best)
            continue;
        int parked = (int)(state.key >> 80);
        Set key = state.key & (bit(80) - 1);
        if (makespan ? key == target : parked == (1 << agents) - 1) {
            int count = 1;
            for (uint32_t p = state.parent; p; p = joint.states[p - 1].parent)
                count++;
            Paths *paths = new_paths();
            for (int k = 0; k < agents; k++) {
                paths->count[k] = count;
                paths->cells[k] = get(count);
            }
            uint32_t here = entry.state + 1;
            for (int t = count - 1; t >= 0; t--, here = joint.states[here - 1].parent)
                for (int k = 0; k < agents; k++)
                    paths->cells[k][t] = (Cell)(joint.states[here - 1].key >> 7 * (agents - 1 - k)) & 127;
            return paths;
        }
        spend(1);
        for (int k = 0; k < agents; k++)
            cells[k] = (Cell)(key >> 7 * (agents - 1 - k)) & 127;
        int cost = entry.cost + (makespan ? 1 : agents - __builtin_popcount((unsigned)parked));
        push_moves(cells, after, 0, parked, cost, entry.state + 1);
    }
    return NULL;
}
