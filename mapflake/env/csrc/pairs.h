/* Two agents alone on the board. Their joint positions are a set of cells of the second for each cell of the first, so one
 * shift moves the second agent for all of them at once. */
#pragma once
#include "board.h"

enum { NEVER = 1 << 24 }; /* more than any cost */

static Set *parked(Space *s, int i, int cost, int waits, int horizon) /* the layers, then the goal up to the horizon */
{
    const Set *own = layers(s, i, cost, waits);
    Set *all = get(&s->arena, (horizon + 1) * sizeof *all);
    for (int t = 0; t <= horizon; t++)
        all[t] = t <= cost ? own[t] : bit(s->agent[i].goal);
    return all;
}

static int can_meet(const Set *first, const Set *second, int horizon)
{
    for (int t = 0; t <= horizon; t++)
        if (first[t] & second[t] || (t && first[t - 1] & second[t] && first[t] & second[t - 1]))
            return 1;
    return 0;
}

/* The joint positions one move later, or earlier: `then` holds zeros where the layer of i is, and gets them. `now` stays.
 * Returns the cells of i. */
static Set step(Space *s, const Set *now, Set occupied, Set *then, Set layer_i, Set layer_j)
{
    int width = s->width;
    Set filled = 0;
    for (Set rest = occupied; rest;) {
        int cell = pop(&rest);
        Set here = bit(cell), cells = now[cell], reach = spread(width, cells) & layer_j;
        if (layer_i & here && reach & ~here) {
            then[cell] |= reach & ~here;
            filled |= here;
        }
        for (Set next = around(width, here) & layer_i; next;) {
            int to = pop(&next);
            Set others = reach & ~bit(to);
            /* j could enter the cell that i leaves only from where i goes (earlier: leave the one that i enters). */
            if (others & here && !(cells & around(width, here) & ~bit(to)))
                others ^= here;
            if (others) {
                then[to] |= others;
                filled |= bit(to);
            }
        }
    }
    return filled;
}

static void clear(Set *rows, Set cells)
{
    while (cells)
        rows[pop(&cells)] = 0;
}

static int count_cells(Set set)
{
    return __builtin_popcountll((uint64_t)set) + __builtin_popcountll(upper(set));
}

static Sets balls_around(Space *s, int goal, int other)
{
    Sets balls = {0};
    Set cells = bit(goal), before = 0;
    for (; cells != before; cells = spread(s->width, cells) & s->field & ~bit(other)) {
        append(s, &balls, cells);
        before = cells;
    }
    return balls;
}

static int steps(const Sets *around, Set cells)
{
    for (size_t k = 0; k < around->count; k++)
        if (around->at[k] & cells)
            return (int)k;
    return NEVER;
}

static Stairs staircase(Space *s, int i, int j, int slack)
{
    Stairs made = {.slack = slack};
    int goal_i = s->agent[i].goal, goal_j = s->agent[j].goal;
    int cost_i = s->agent[i].distance + slack, cost_j = s->agent[j].distance + slack;
    int horizon = larger(cost_i, cost_j), last = cost_i + cost_j - horizon;
    const Set *layer_i = parked(s, i, cost_i, 1, horizon), *layer_j = parked(s, j, cost_j, 1, horizon);
    if (!can_meet(layer_i, layer_j, horizon)) {
        made.free = 1;
        return made;
    }
    Sets around_i = balls_around(s, goal_j, goal_i), around_j = balls_around(s, goal_i, goal_j);
    made.then_i = get(&s->arena, 2 * (slack + 1) * sizeof(int));
    made.then_j = made.then_i + slack + 1;
    for (int k = 0; k < 2 * (slack + 1); k++)
        made.then_i[k] = NEVER;
    Set rows[2][CELLS] = {0}, occupied = bit(s->agent[i].start);
    rows[0][s->agent[i].start] = bit(s->agent[j].start);
    for (int t = 0; t <= last; t++) {
        Set *now = rows[t & 1];
        if (t >= s->agent[i].distance)
            made.then_j[t - s->agent[i].distance] = t + steps(&around_i, now[goal_i]);
        if (t >= s->agent[j].distance) {
            Set cells = 0;
            for (Set rest = occupied; rest;) {
                int cell = pop(&rest);
                if (has(now[cell], goal_j))
                    cells |= bit(cell);
            }
            made.then_i[t - s->agent[j].distance] = t + steps(&around_j, cells);
        }
        if (t < last) {
            spend(s, count_cells(occupied));
            Set filled = step(s, now, occupied, rows[~t & 1], layer_i[t + 1], layer_j[t + 1]);
            clear(now, occupied);
            occupied = filled;
        }
    }
    return made;
}

static int meets(Space *s, int i, int j, int cost_i, int cost_j)
{
    int excess_i = cost_i - s->agent[i].distance, excess_j = cost_j - s->agent[j].distance, need = larger(excess_i, excess_j);
    Stairs *known = &s->stairs[i][j];
    if (!known->slack || known->slack < need)
        *known = staircase(s, i, j, larger(need, known->slack ? 2 * known->slack + 1 : 1));
    if (known->free)
        return 1;
    return cost_i <= cost_j ? known->then_j[excess_i] <= cost_j : known->then_i[excess_j] <= cost_i;
}

static const Table *make_pair(Space *s, int i, int j, int cost_i, int cost_j, int waits)
{
    int horizon = larger(cost_i, cost_j), goal_i = s->agent[i].goal, goal_j = s->agent[j].goal;
    const Set *layer_i = parked(s, i, cost_i, waits, horizon), *layer_j = parked(s, j, cost_j, waits, horizon);
    if (!layer_i[0] || !layer_j[0])
        return &never;
    if (!can_meet(layer_i, layer_j, horizon))
        return &always;
    Table *table = get(&s->arena, sizeof *table);
    table->horizon = horizon;
    table->rows = get(&s->arena, (size_t)(horizon + 1) * s->stride * sizeof(Set));
    Set *after = table->rows + (size_t)horizon * s->stride;
    Set occupied = bit(goal_i);
    after[goal_i] = bit(goal_j);
    for (int t = horizon - 1; t >= 0; t--) {
        Set *before = after - s->stride;
        clear(before, layer_i[t]);
        spend(s, count_cells(occupied));
        Set filled = step(s, after, occupied, before, layer_i[t], layer_j[t]);
        if (!filled)
            return &never;
        occupied = filled;
        after = before;
    }
    return has(occupied, s->agent[i].start) && has(after[s->agent[i].start], s->agent[j].start) ? table : &never;
}

static const Table *pair(Space *s, int i, int j, int cost_i, int cost_j, int waits)
{
    Key key = (Key)cost_i << 36 | (Key)cost_j << 9 | (Key)i << 5 | (Key)j << 1 | (Key)waits;
    uintptr_t known = map_get(&s->pairs, key);
    if (!known) {
        known = (uintptr_t)make_pair(s, i, j, cost_i, cost_j, waits);
        *map_at(&s->arena, &s->pairs, key) = known;
    }
    return (const Table *)known;
}

static int pair_makespan(Space *s, int i, int j)
{
    Set reached[CELLS] = {0}, frontier[CELLS] = {0}, found[CELLS] = {0};
    int goal_i = s->agent[i].goal, goal_j = s->agent[j].goal, time = 0;
    Set occupied = bit(s->agent[i].start);
    reached[s->agent[i].start] = frontier[s->agent[i].start] = bit(s->agent[j].start);
    for (; !has(reached[goal_i], goal_j); time++) {
        spend(s, count_cells(occupied));
        Set filled = step(s, frontier, occupied, found, s->field, s->field);
        clear(frontier, occupied);
        occupied = 0;
        for (Set rest = filled; rest;) {
            int cell = pop(&rest);
            Set new = found[cell] & ~reached[cell];
            found[cell] = 0;
            if (new) {
                frontier[cell] = new;
                reached[cell] |= new;
                occupied |= bit(cell);
            }
        }
        if (!occupied)
            return -1;
    }
    return time;
}
